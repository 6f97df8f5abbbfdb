//! Threads of the kernel, which a test pins or slows to plant who comes first.

use std::io::Write;

/// The threads whose names begin with `name`; panics if there is none. None where a PID namespace
/// hides all kernel threads: the test is then skipped, and the reason recorded as pytest's are.
pub(crate) fn kernel_threads(name: &str) -> Option<Vec<i32>> {
    let comm = |number: i32| std::fs::read_to_string(format!("/proc/{number}/comm"));
    if !comm(2).is_ok_and(|comm| comm == "kthreadd\n") {
        if let Ok(skipped) = std::env::var("PINCHPOINT_SKIPPED") {
            let mut file = std::fs::File::options().append(true).open(skipped).unwrap();
            writeln!(file, "1 skipped: no kernel threads in this PID namespace").unwrap();
        }
        return None;
    }
    let processes = std::fs::read_dir("/proc").unwrap();
    let numbers = processes.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    let is_named = |number: &i32| comm(*number).is_ok_and(|comm| comm.starts_with(name));
    let threads: Vec<i32> = numbers.filter(is_named).collect();
    assert!(!threads.is_empty(), "no kernel thread {name}");
    Some(threads)
}
