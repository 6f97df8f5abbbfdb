//! A process to hold, in place of a device: for the tests of this crate and of
//! the engine.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Ended with the test.
pub(crate) struct Device(pub(crate) Child);

impl Device {
    pub(crate) fn start() -> Self {
        let mut child = Command::new("sleep");
        child.arg("600").stdin(Stdio::null());
        Self(child.spawn().unwrap())
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).unwrap()
    }

    /// Its state, as proc(5) writes it.
    pub(crate) fn state(&self) -> char {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        let (_, after) = stat.rsplit_once(") ").unwrap();
        after.chars().next().unwrap()
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.state() == 'T'
    }

    /// Waits until it is stopped, or until it is not. Signals take their time.
    pub(crate) fn await_stopped(&self, stopped: bool) {
        let patience = Instant::now() + Duration::from_secs(20);
        while self.is_stopped() != stopped {
            assert!(Instant::now() < patience, "stopped: {}", !stopped);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
