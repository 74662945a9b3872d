//! How far this process is in the calls over processes. Python warns of one that waits for long.

use std::sync::Mutex;
use std::time::Instant;

/// Calls that have drawn a ticket here, calls that have got one, and when the last of either came.
#[derive(Clone, Copy)]
struct Figures {
    begun: u64,
    arrived: u64,
    last: Option<Instant>,
}

pub struct Account(Mutex<Figures>);

pub static ACCOUNT: Account = Account(Mutex::new(Figures { begun: 0, arrived: 0, last: None }));

impl Account {
    fn change(&self, change: impl FnOnce(&mut Figures)) {
        let mut figures = self.0.lock().unwrap_or_else(|e| e.into_inner());
        change(&mut figures);
        figures.last = Some(Instant::now());
    }

    pub fn begun(&self) {
        self.change(|figures| figures.begun += 1);
    }

    pub fn arrived(&self) {
        self.change(|figures| figures.arrived += 1);
    }

    /// Both numbers, and the seconds since the last change.
    pub fn read(&self) -> (u64, u64, f64) {
        let Figures { begun, arrived, last } = *self.0.lock().unwrap_or_else(|e| e.into_inner());
        (begun, arrived, last.map_or(0.0, |last| last.elapsed().as_secs_f64()))
    }
}
