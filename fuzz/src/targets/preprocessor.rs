//! preprocessor_config.json, with an image of 3 × 2 pixels.

pub(crate) fn fuzz(config: &[u8]) -> crate::Outcome {
    let pixels: Vec<u8> = (0..18).map(|i| i * 14).collect();
    crate::bounded(config.len() + (64 << 10), || super::image::read(config, &pixels, [3, 2]))
}
