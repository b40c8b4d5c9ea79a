//! Rotary positions, compared with their formulas in f64: every scaling of frequencies, both pairings, and a part of a head's
//! features.

use core::f64::consts::PI;

use crate::common::{U, numbers};
use proptest::prelude::*;
use regard::{Pairing, Rotary, RotaryFrequencies, RotaryScaling};

/// The frequencies base^(−2i/features) with a scaling, and the amplitude. This is written after the papers and
/// `modeling_rope_utils.py` of transformers.
fn formula(features: usize, base: f64, scaling: Option<RotaryScaling>) -> (Vec<f64>, f64) {
    let own: Vec<f64> = (0..features / 2)
        .map(|i| (-(2.0 * i as f64 / features as f64) * base.ln()).exp())
        .collect();
    match scaling {
        None => (own, 1.0),
        Some(RotaryScaling::Linear { factor }) => (own.iter().map(|f| f / factor).collect(), 1.0),
        Some(RotaryScaling::Llama3 {
            factor,
            low_frequency_factor: low,
            high_frequency_factor: high,
            original_positions,
        }) => {
            let old = original_positions;
            let scaled = |f: &f64| {
                let wavelength = 2.0 * PI / f;
                if wavelength < old / high {
                    *f
                } else if wavelength > old / low {
                    f / factor
                } else {
                    let smooth = (old / wavelength - low) / (high - low);
                    (1.0 - smooth) * f / factor + smooth * f
                }
            };
            (own.iter().map(scaled).collect(), 1.0)
        }
        Some(RotaryScaling::Yarn {
            factor,
            original_positions,
            beta_fast,
            beta_slow,
            amplitude,
            whole_pairs,
        }) => {
            let (dim, old) = (features as f64, original_positions);
            let correction = |turns: f64| dim * (old / (turns * 2.0 * PI)).ln() / (2.0 * base.ln());
            let (low, high) = (correction(beta_fast), correction(beta_slow));
            let (low, high) = if whole_pairs { (low.floor(), high.ceil()) } else { (low, high) };
            let (low, mut high) = (low.max(0.0), high.min(dim - 1.0));
            if low == high {
                high += 0.001;
            }
            let scaled = |(i, f): (usize, &f64)| {
                let ramp = ((i as f64 - low) / (high - low)).clamp(0.0, 1.0);
                let extrapolated = 1.0 - ramp;
                f / factor * (1.0 - extrapolated) + f * extrapolated
            };
            let default = if factor <= 1.0 { 1.0 } else { 0.1 * factor.ln() + 1.0 };
            (own.iter().enumerate().map(scaled).collect(), amplitude.unwrap_or(default))
        }
        Some(other) => panic!("{other:?} has no formula here"),
    }
}

/// Rotates two heads of `head_dim` in each of two entries, and compares with x·cos − y·sin and y·cos + x·sin in f64.
fn check(
    rotary: &Rotary,
    (frequencies, amplitude): &(Vec<f64>, f64),
    pairing: Pairing,
    head_dim: usize,
) {
    let (features, tokens, heads, first) = (rotary.features(), 5, 2, rotary.positions() - 5);
    let x = numbers(2 * tokens * heads * head_dim, 3);
    let mut found = x.clone();
    rotary.rotate(&mut found, [2, tokens, heads, head_dim], first).unwrap();
    for (row, (x, found)) in x.chunks(head_dim).zip(found.chunks(head_dim)).enumerate() {
        let position = (first + row / heads % tokens) as f64;
        for (i, f) in frequencies.iter().enumerate() {
            let (a, b) = match pairing {
                Pairing::Interleaved => (2 * i, 2 * i + 1),
                Pairing::HalfSplit => (i, i + features / 2),
            };
            let (sin, cos) = (position * f).sin_cos();
            let (p, q) = (f64::from(x[a]), f64::from(x[b]));
            // Cosine, sine, each product and the sum are rounded once: (1 + U)³ − 1 < 3.1·U for each product. The frequency has
            // at most 100 roundings in f64, for base^… and logarithms, and the angle has the same relative error.
            let size = amplitude * (p.abs() + q.abs());
            let bound = size * (3.1 * U + position * f * 100.0 * f64::EPSILON)
                + f64::from(f32::MIN_POSITIVE);
            for (found, expected) in [
                (found[a], amplitude * (p * cos - q * sin)),
                (found[b], amplitude * (q * cos + p * sin)),
            ] {
                let error = (f64::from(found) - expected).abs();
                assert!(error <= bound, "{found} is not {expected}: off by {error}, bound {bound}");
            }
        }
        assert_eq!(x[features..], found[features..], "the features after those that turn");
    }
}

fn scaling() -> impl Strategy<Value = Option<RotaryScaling>> {
    let llama3 = |(factor, low_frequency_factor, more, original_positions)| {
        let high_frequency_factor = low_frequency_factor * more;
        Some(RotaryScaling::Llama3 {
            factor,
            low_frequency_factor,
            high_frequency_factor,
            original_positions,
        })
    };
    let yarn = |(factor, original_positions, beta_fast, beta_slow, amplitude, whole_pairs)| {
        Some(RotaryScaling::Yarn {
            factor,
            original_positions,
            beta_fast,
            beta_slow,
            amplitude,
            whole_pairs,
        })
    };
    let positions = (16..20_000_u16).prop_map(f64::from);
    let amplitude = prop::option::of(0.5..2.0_f64);
    prop_oneof![
        Just(None),
        (1.0..40.0_f64).prop_map(|factor| Some(RotaryScaling::Linear { factor })),
        (1.0..40.0_f64, 0.5..2.0_f64, 1.5..8.0_f64, positions.clone()).prop_map(llama3),
        (0.5..40.0_f64, positions, 16.0..64.0_f64, 0.5..4.0_f64, amplitude, any::<bool>())
            .prop_map(yarn),
    ]
}

proptest! {
    #[test]
    fn rotation_is_its_formula(
        pairs in 1..20_usize,
        more in 0..7_usize,
        base in 2.0..1e6_f64,
        scaling in scaling(),
        positions in 5..3_000_usize,
        interleaved: bool,
    ) {
        let pairing = if interleaved { Pairing::Interleaved } else { Pairing::HalfSplit };
        let features = 2 * pairs;
        let frequencies = match scaling {
            None => RotaryFrequencies::new(features, base),
            Some(scaling) => RotaryFrequencies::scaled(features, base, scaling),
        }.unwrap();
        let rotary = Rotary::with_frequencies(&frequencies, positions, pairing).unwrap();
        check(&rotary, &formula(features, base, scaling), pairing, features + more);
    }

    #[test]
    fn any_frequencies_are_taken(
        frequencies in prop::collection::vec(prop_oneof![Just(0.0), 0.0..3.0_f64], 1..9),
        amplitude in 0.1..3.0_f64,
        interleaved: bool,
    ) {
        let pairing = if interleaved { Pairing::Interleaved } else { Pairing::HalfSplit };
        let given = RotaryFrequencies::custom(&frequencies).unwrap().with_amplitude(amplitude).unwrap();
        let rotary = Rotary::with_frequencies(&given, 300, pairing).unwrap();
        check(&rotary, &(frequencies.clone(), amplitude), pairing, 2 * frequencies.len() + 1);
    }
}

/// The frequencies of Llama 3.1 8B, at both ends of the scaling's three ranges.
#[test]
fn llama_3_keeps_fast_pairs_and_slows_slow_ones() {
    let scaling = RotaryScaling::Llama3 {
        factor: 8.0,
        low_frequency_factor: 1.0,
        high_frequency_factor: 4.0,
        original_positions: 8192.0,
    };
    let own: Vec<f64> = RotaryFrequencies::new(128, 5e5).unwrap().frequencies().collect();
    let scaled: Vec<f64> =
        RotaryFrequencies::scaled(128, 5e5, scaling).unwrap().frequencies().collect();
    let ratios: Vec<f64> = own.iter().zip(scaled).map(|(own, scaled)| own / scaled).collect();
    // The expected number has one division more than the frequency: two roundings in f64.
    let are = |ratios: &[f64], of: f64| ratios.iter().all(|x| (x / of - 1.0).abs() < 1e-15);
    assert!(are(&ratios[..29], 1.0), "wavelengths below 8192/4");
    assert!(are(&ratios[35..], 8.0), "wavelengths above 8192");
    assert!(ratios[29..35].is_sorted() && ratios[29] > 1.0 && ratios[34] < 8.0, "those between");
}

#[test]
fn a_clone_shares_the_table() {
    let rotary = Rotary::new(128, 100_000, 1e4, Pairing::HalfSplit).unwrap();
    // A copy has 50 MB. So many copies would not fit in memory.
    let clones = vec![rotary.clone(); 1_000];
    assert_eq!(clones.len(), 1_000);
}
