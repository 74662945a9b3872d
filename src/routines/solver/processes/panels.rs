//! Finished panels of a factorisation on their way from their owners to all processes. Two are on the
//! way or in use at a time.

use crate::error::Result;
use crate::processes::{Communicator, Request};
use crate::scalar::Scalar;

/// Elements of the message with a panel: before its columns come int32 numbers, whether it has failed
/// and its pivots.
pub fn elements<T>(rows: usize, width: usize) -> usize {
    prefix::<T>(width) + rows * width
}

fn prefix<T>(width: usize) -> usize {
    ((1 + width) * size_of::<i32>()).div_ceil(size_of::<T>())
}

pub struct Panels<'a, T> {
    ranks: &'a Communicator,
    width: usize,
    /// Of panels with even and with odd numbers.
    messages: [Message<'a, T>; 2],
}

struct Message<'a, T> {
    elements: &'a mut [T],
    request: Option<Request>,
}

impl<'a, T: Scalar> Panels<'a, T> {
    /// For panels of so many columns. `memory` has the `elements` of the largest panel, twice.
    pub fn new(ranks: &'a Communicator, width: usize, memory: &'a mut [Vec<T>; 2]) -> Self {
        let [even, odd] = memory;
        let messages = [even, odd].map(|elements| Message { elements, request: None });
        Panels { ranks, width, messages }
    }

    /// The message of a panel: its numbers, and its columns, one after the other. The last panel with
    /// the same memory has been used by all.
    pub fn message(&mut self, panel: usize) -> Result<(&mut [i32], &mut [T])> {
        self.finish(panel)?;
        let (numbers, columns) =
            self.messages[panel % 2].elements.split_at_mut(prefix::<T>(self.width));
        Ok((bytemuck::cast_slice_mut(numbers), columns))
    }

    /// Sends the message of a panel of so many rows from its owner, or begins to receive it.
    pub fn begin(&mut self, panel: usize, rows: usize, owner: usize) -> Result<()> {
        self.finish(panel)?;
        let message = &mut self.messages[panel % 2];
        let count = elements::<T>(rows, self.width);
        assert!(count <= message.elements.len(), "room for a panel");
        let at = message.elements.as_mut_ptr();
        // SAFETY: this memory, which is borrowed for longer, and is used after `finish` alone.
        let request = unsafe { self.ranks.begin_broadcast(at, count, owner) };
        message.request = Some(request?);
        Ok(())
    }

    /// Lets messages go on.
    pub fn poll(&mut self) -> Result<()> {
        let requests = self.messages.iter_mut().filter_map(|message| message.request.as_mut());
        requests.into_iter().try_for_each(Request::poll)
    }

    /// Waits until the message of a panel is there, or has left.
    pub fn finish(&mut self, panel: usize) -> Result<()> {
        self.messages[panel % 2].request.take().map_or(Ok(()), Request::wait)
    }
}
