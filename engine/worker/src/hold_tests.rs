use super::device::Device;
use super::*;
use std::time::Duration;

fn two() -> ([Device; 2], Hold) {
    let devices = [Device::start(), Device::start()];
    let hold = Hold::new(&[vec![devices[0].pid()], vec![devices[1].pid()]]).unwrap();
    (devices, hold)
}

fn refusal(pid: i32) -> HoldError {
    Hold::new(&[vec![], vec![pid]]).unwrap_err()
}

#[test]
fn all_but_the_group_whose_turn_it_is_are_stopped() {
    let ([one, other], hold) = two();
    assert_eq!(hold.turn_to(0), Ok(true));
    other.await_stopped(true);
    assert_ne!(one.state(), 'T');
    assert_eq!(hold.turn_to(0), Ok(false));
    assert_eq!(hold.turn_to(1), Ok(true));
    one.await_stopped(true);
    other.await_stopped(false);
    hold.release();
    one.await_stopped(false);
    assert_eq!(hold.turn_to(0), Ok(false));
    std::thread::sleep(Duration::from_millis(20));
    assert_ne!(other.state(), 'T', "nothing is stopped after the release");
}

#[test]
fn a_panic_leaves_nothing_stopped() {
    let ([_one, other], hold) = two();
    let hold = Arc::new(hold);
    let kept = Arc::clone(&hold);
    hold.turn_to(0).unwrap();
    other.await_stopped(true);
    let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _released = ReleaseAtEnd(kept);
        std::panic::resume_unwind(Box::new("a worker dies"));
    }));
    assert!(died.is_err());
    other.await_stopped(false);
}

#[test]
fn a_process_that_has_ended_is_named_also_as_a_zombie() {
    let ([_one, mut other], hold) = two();
    hold.turn_to(0).unwrap();
    let ended = format!("process {} of slices.hold[1] has ended", other.pid());
    other.0.kill().unwrap();
    while hold.check().is_ok() {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(other.state(), 'Z');
    assert_eq!(hold.turn_to(1), Err(ended.clone()));
    other.0.wait().unwrap();
    assert_eq!(hold.check(), Err(ended));
}

#[test]
fn what_cannot_be_held_is_refused_with_its_place() {
    let own = std::process::id() as i32;
    let parent = std::os::unix::process::parent_id() as i32;
    for pid in [i32::MIN, -1, 0, 1, own, parent] {
        let error = refusal(pid);
        assert_eq!((error.group, error.place), (1, 0), "{pid}");
        assert!(error.what.contains(&pid.to_string()), "{error:?}");
    }
    let mut gone = Device::start();
    gone.0.kill().unwrap();
    gone.0.wait().unwrap();
    assert_eq!(
        refusal(gone.pid()).what,
        format!("process {} does not exist", gone.pid())
    );
    let (sender, receiver) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        sender.send(rustix::thread::gettid()).unwrap();
        std::thread::park();
    });
    let number = receiver.recv().unwrap().as_raw_nonzero().get();
    assert_eq!(
        refusal(number).what,
        format!("{number} is a thread, not a process")
    );
    thread.thread().unpark();
    thread.join().unwrap();
}
