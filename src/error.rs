//! The one error of the native side: a kind, which maps to an XLA status code, and a message. The
//! message names operation, expectation, finding and remedy.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The call itself is wrong: shapes, types, attributes, ranks.
    InvalidArgument,
    /// The user has cancelled the call.
    Cancelled,
    /// A device did not arrive in time.
    DeadlineExceeded,
    /// The machine refused something (threads, memory).
    ResourceExhausted,
    /// The machine lacks something: a library, a driver, a version of them.
    FailedPrecondition,
    /// A defect of this library, such as a caught panic.
    Internal,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pub kind: Kind,
    pub message: String,
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Error { kind, message: message.into() }
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Error::new(Kind::InvalidArgument, message)
    }

    /// Turns a payload that `catch_unwind` caught into an error; `origin` names the place.
    pub fn from_panic(origin: &str, payload: &(dyn std::any::Any + Send)) -> Self {
        let text = payload
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| payload.downcast_ref::<&str>().copied())
            .unwrap_or("no message");
        let message = format!(
            "meshsolve: a panic in {origin} was caught: {text}. This is a defect of meshsolve; please \
             report it with the call that led to it. The process and later calls are not affected."
        );
        Error::new(Kind::Internal, message)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
