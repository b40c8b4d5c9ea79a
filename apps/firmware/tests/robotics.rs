//! The numbers that the image prints, computed on the host.

use regard_firmware::{LOVE, OUTPUT_OF_LOVE, Robotics};

/// The exact weights, rounded to `f64`: e^(2/√3), e^(1/√3) and 1, each row divided by its sum.
const WEIGHTS: [[f64; 3]; 3] = [
    [0.532_896_837_541_907_9, 0.167_943_450_147_744_42, 0.299_159_712_310_347_8],
    [1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0],
    [0.390_413_945_606_789_3, 0.390_413_945_606_789_3, 0.219_172_108_786_421_24],
];

/// The exact outputs: weights times V.
const OUTPUT: [[f64; 3]; 3] = [
    [1.532_896_837_541_907_9, 0.467_103_162_458_092_25, 0.832_056_549_852_255_6],
    [4.0 / 3.0, 2.0 / 3.0, 2.0 / 3.0],
    [1.390_413_945_606_789, 0.609_586_054_393_210_6, 0.609_586_054_393_210_6],
];

/// Half an ULP of 1: the relative error of one rounding.
const U: f64 = f32::EPSILON as f64 / 2.0;

/// The largest error of a weight or an output. A score is a whole number times a rounded 1/√3, rounded: 2u, of at most 4/√3. The
/// difference of two scores is then off by at most 2·2u·4/√3 + 4/√3·u < 12u, and its exponential by 12u + 2u, relatively. The
/// sum of three adds 2u to that, the division u: a weight is off by 14u + 16u + u = 31u at most. An output is the sum of three
/// products, 3u more, and the values are at most 2.
const BOUND: f64 = 2.0 * 34.0 * U;

#[test]
fn weights_and_output_are_the_exact_ones() {
    let robotics = Robotics::compute().unwrap();
    for (found, exact) in [(robotics.weights, WEIGHTS), (robotics.output, OUTPUT)] {
        for (found, exact) in found.as_flattened().iter().zip(exact.as_flattened()) {
            assert!((f64::from(*found) - exact).abs() <= BOUND, "{found} instead of {exact}");
        }
    }
    assert!(robotics.is_right());
}

#[test]
fn a_wrong_row_is_detected() {
    let mut robotics = Robotics { weights: [[1.0 / 3.0; 3]; 3], output: [OUTPUT_OF_LOVE; 3] };
    assert!(robotics.is_right());
    for x in [1.332, 1.333_34, f32::NAN] {
        robotics.output[LOVE][0] = x;
        assert!(!robotics.is_right(), "{x}");
    }
    assert!(robotics.to_string().ends_with("NOT as worked by hand"));
}

#[test]
fn the_report_holds_every_number_with_its_bits() {
    let robotics = Robotics::compute().unwrap();
    let report = robotics.to_string();
    for x in robotics.weights.as_flattened().iter().chain(robotics.output.as_flattened()) {
        assert!(report.contains(&format!("{x:.7} {:08x}", x.to_bits())), "{x} in {report}");
    }
}
