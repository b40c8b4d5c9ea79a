//! Attention and its gradients on threads whose floating-point environments differ: the caller's counts subnormal numbers as 0 and
//! rounds up.

use regard::{
    Activation, Attention, Heads, Temperature, Threads, softmax_backward, softmax_jacobian,
};
use regard_kernels::internal::with_other_environment;

use crate::common::{bits, numbers};

const SHAPE: [usize; 4] = [1, 8, 130, 16];

#[test]
fn an_attention_has_the_same_bits_in_another_environment() {
    let len = SHAPE.iter().product();
    let [q, k, v, d_out] = [1, 2, 3, 4].map(|seed| numbers(len, seed));
    let small = |x: &[f32]| x.iter().map(|x| x * 1e-38).collect::<Vec<f32>>();
    let (v, d_out) = (small(&v), small(&d_out));
    let [q, k, v] = [&q, &k, &v].map(|x| Heads::new("x", x, SHAPE).unwrap());
    let sinks = [0.3; 8];
    let attention = Attention::new().sinks(&sinks).temperature(Temperature::new(0.7).unwrap());
    let results = || {
        let out = attention.forward(q, k, v).unwrap();
        let gradients = attention.backward(q, k, v, out.as_slice(), &d_out).unwrap();
        let all = [&gradients.query, &gradients.key, &gradients.value, &out];
        let of_sinks = gradients.sinks.unwrap();
        [all.map(bits).concat(), bits(&[gradients.scale]), bits(&of_sinks)].concat()
    };
    let two = Threads::new(2).unwrap();
    let expected = Threads::ONE.install(results);
    assert!(expected.iter().filter(|x| **x << 1 != 0).count() > len);
    for threads in [Threads::ONE, two] {
        assert!(threads.install(results) == expected);
        assert!(with_other_environment(|| threads.install(results)) == expected);
    }
}

#[test]
fn softmax_and_activations_have_the_same_bits_in_another_environment() {
    let x: Vec<f32> = numbers(300, 5).iter().map(|x| x * 1e-38).collect();
    let results = || {
        let mut activated = x.clone();
        Activation::QuickGelu.apply(&mut activated);
        let backward = softmax_backward(&x, &activated, Temperature::ONE).unwrap();
        let jacobian = softmax_jacobian(&x[..20], Temperature::new(1.3).unwrap()).unwrap();
        bits(&[activated, backward, jacobian].concat())
    };
    assert!(with_other_environment(results) == results());
}
