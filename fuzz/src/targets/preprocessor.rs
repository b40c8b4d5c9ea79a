//! preprocessor_config.json, with an image of 3 × 2 pixels and a short recording.

pub(crate) fn fuzz(config: &[u8]) -> crate::Outcome {
    let pixels: Vec<u8> = (0..18).map(|i| i * 14).collect();
    let bytes = config.len() + (64 << 10);
    let sound = crate::bounded(bytes, || super::audio::read(config, &[0.5, -0.5], 16_000));
    crate::bounded(bytes, || super::image::read(config, &pixels, [3, 2])).or(sound)
}
