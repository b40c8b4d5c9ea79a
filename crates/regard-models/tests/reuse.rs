//! The layers of a run write to the memory that the run before has left.
#![expect(clippy::unwrap_used, reason = "a test fails with a panic")]

use peak_alloc::PeakAlloc;
use regard::Threads;
use regard_models::{Input, Model};
use regard_tests::models::golden;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// The most bytes that a run takes beside its result, and the bytes that stay when the result is dropped.
fn beside(model: &Model, tokens: u32) -> (usize, usize) {
    let input = Input::tokens((0..tokens).map(|i| i % 50).collect::<Vec<_>>());
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let trace = model.pass().run(&input).unwrap();
    let result = 4 * trace.logits().unwrap().data.len();
    let peak = MEMORY.peak_usage() - before - result;
    drop(trace);
    (peak, MEMORY.current_usage().saturating_sub(before))
}

#[test]
fn a_second_run_takes_no_memory_for_its_streams() {
    let model = Model::open(golden("tiny-llama")).unwrap();
    let stream = 4 * 400 * model.description().width;
    Threads::ONE.install(|| {
        let (first, stays) = beside(&model, 400);
        let (second, more) = beside(&model, 400);
        let (third, _) = beside(&model, 400);
        // A stream and what a layer makes of it are several matrices of this size.
        assert!(
            first >= 4 * stream && stays >= 4 * stream,
            "{first} and {stays} bytes, {stream} a stream"
        );
        // The embedding makes a stream; tables of angles and names are small beside it.
        assert!(
            second < 2 * stream && more < stream / 2,
            "{second} and {more} bytes, {stream} a stream"
        );
        // The program that runs the tests allocates a little on another thread, at any time.
        assert!(third.abs_diff(second) < stream / 2, "{third} bytes, and {second} before");
        // A short run gives back what the long one has left.
        let held = MEMORY.current_usage();
        beside(&model, 4);
        assert!(
            MEMORY.current_usage() + stays / 2 < held,
            "{} bytes of {held}",
            MEMORY.current_usage()
        );
    });
}
