//! The same bits, whichever way one comes to the kernels.

use regard::{Attention, Heads, Position, Threads};
use regard_firmware::Robotics;
use regard_kernels::{Mask, Mat, MatMut, attention_scratch_len};
use regard_walkthrough::{Example, Settings, Walkthrough};

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

#[test]
fn the_firmware_computes_what_the_window_shows() {
    let firmware = Robotics::compute().unwrap();
    let window = Walkthrough::run(Example::ILoveRobotics, &Settings::default()).unwrap();
    let step = |key: &str| bits(window.step(key).unwrap().matrix.as_slice());
    assert_eq!(bits(firmware.weights.as_flattened()), step("weights"));
    assert_eq!(bits(firmware.output.as_flattened()), step("output"));
}

#[test]
fn the_parallel_layer_gives_the_kernels_bits() {
    let (heads, n, d) = (3, 200, 24);
    let data: Vec<f32> = (0..heads * n * d).map(|i| ((i * 7919) % 1013) as f32 / 506.5 - 1.0).collect();
    let x = Heads::new("x", &data, [1, heads, n, d]).unwrap();
    let layer =
        Attention::new().causal(Position::BottomRight).threads(Threads::new(3).unwrap()).forward(x, x, x).unwrap();
    for (head, layer) in data.chunks(n * d).zip(layer.chunks(n * d)) {
        let x = Mat::new(head, n, d).unwrap();
        let mut out = vec![0.0; n * d];
        let mut scratch = vec![0.0; attention_scratch_len(n, n, d)];
        let kernel = regard_kernels::Attention::new().mask(Mask::NONE.causal(Position::BottomRight));
        kernel.forward(x, x, x, MatMut::new(&mut out, n, d).unwrap(), &mut scratch).unwrap();
        assert_eq!(bits(&out), bits(layer));
    }
}
