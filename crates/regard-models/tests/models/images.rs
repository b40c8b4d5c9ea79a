//! Images resized as Pillow resizes them, to the last bit.

use regard_models::{Description, Error, ImageProcessor};
use serde_json::{Value, json};

use crate::common::with_file;

/// The pixels of `golden/resize.py`.
fn image(height: usize, width: usize) -> Vec<u8> {
    let pixel = |i: usize, j: usize, c: usize| (i * i * 37 + j * 101 + i * j * 13 + c * 59) as u8;
    let places = (0..height).flat_map(|i| (0..width).map(move |j| (i, j)));
    places.flat_map(|(i, j)| (0..3).map(move |c| pixel(i, j, c))).collect()
}

fn processor(settings: &Value) -> Result<ImageProcessor, Error> {
    let checkpoint = with_file("tiny-vit", "preprocessor_config.json", settings);
    ImageProcessor::of(&checkpoint, &Description::of(&checkpoint).unwrap())
}

#[test]
fn images_are_resized_as_pillow_resizes_them() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("../golden/resize.json")).unwrap();
    assert_eq!(cases.len(), 16);
    for case in cases {
        let pair = |key: &str| [0, 1].map(|i| case[key][i].as_u64().unwrap() as usize);
        let ([height, width], [new_height, new_width]) = (pair("before"), pair("after"));
        let settings = json!({
            "resample": case["resample"], "size": {"height": new_height, "width": new_width},
            "do_rescale": false, "do_normalize": false,
        });
        let input =
            processor(&settings).unwrap().read(&image(height, width), [height, width]).unwrap();
        let pixels = new_height * new_width;
        for (i, expected) in case["pixels"].as_array().unwrap().iter().enumerate() {
            let found = input.pixels[i % 3 * pixels + i / 3];
            assert_eq!(Some(f64::from(found)), expected.as_f64(), "{settings}: number {i}");
        }
    }
}

/// CLIP's and Bit's processors resize the shorter side and keep the middle, DeiT's keeps it too, and SigLIP's does not.
/// DINOv3's does not round what it resizes.
#[test]
fn processors_make_the_numbers_of_transformers() {
    let cases: Vec<Value> =
        serde_json::from_str(include_str!("../golden/processors.json")).unwrap();
    assert_eq!(cases.len(), 8);
    for case in cases {
        let size = [0, 1].map(|i| case["before"][i].as_u64().unwrap() as usize);
        let processor = processor(&case["settings"]).unwrap();
        let input = processor.read(&image(size[0], size[1]), size).unwrap();
        let expected: Vec<f64> = serde_json::from_value(case["pixels"].clone()).unwrap();
        assert_eq!(input.pixels.len(), expected.len(), "{}", case["settings"]);
        for (found, expected) in input.pixels.iter().zip(expected) {
            // Numbers below 4 that are rounded four times, and written with seven digits. Of the sums that torch rounds, each is
            // off by less than 3 · 2⁻²⁵ before it is divided by 0.22.
            assert!((f64::from(*found) - expected).abs() < 4e-6, "{}", case["settings"]);
        }
    }
    let cropped = json!({"do_center_crop": true, "crop_size": 20, "size": {"shortest_edge": 12}});
    let said = processor(&cropped).unwrap().read(&image(9, 31), [9, 31]).unwrap_err().to_string();
    assert!(
        said.contains("the middle 20 × 20 of an image of 12 × 41 pixels is not in it"),
        "{said}"
    );
}

/// The pixels that the filter "nearest" takes of a row, for many pairs of sizes.
#[test]
fn the_nearest_pixels_are_those_that_pillow_takes() {
    let rows: Vec<Value> = serde_json::from_str(include_str!("../golden/nearest.json")).unwrap();
    assert_eq!(rows.len(), 30);
    for row in rows {
        let size = |key: &str| row[key].as_u64().unwrap() as usize;
        let (before, after) = (size("before"), size("after"));
        let settings = json!({
            "resample": 0, "size": {"height": 1, "width": after}, "do_rescale": false, "do_normalize": false,
        });
        let pixels: Vec<u8> = (0..before).flat_map(|x| [x as u8; 3]).collect();
        let input = processor(&settings).unwrap().read(&pixels, [1, before]).unwrap();
        let taken: Vec<f32> = serde_json::from_value(row["taken"].clone()).unwrap();
        assert_eq!(input.pixels[..after], taken, "{before} to {after}");
    }
}

/// transformers 5 writes the settings into a file of all processors, which counts first.
#[test]
fn processor_config_has_the_settings_of_images_too() {
    let own = json!({"image_mean": 0.25, "image_std": [0.5, 1.0, 2.0], "do_resize": false});
    let pixels = |file, settings: &Value| {
        let checkpoint = with_file("tiny-vit", file, settings);
        let description = Description::of(&checkpoint).unwrap();
        let processor = ImageProcessor::of(&checkpoint, &description)?;
        Ok::<_, Error>(processor.read(&[255, 51, 0], [1, 1])?.pixels)
    };
    let nested = json!({"image_processor": own, "processor_class": "ViTProcessor"});
    let found = pixels("processor_config.json", &nested).unwrap();
    // (sample / 255 − mean) / deviation
    assert_eq!(found, [1.5, 51.0 * (1.0_f32 / 255.0) - 0.25, -0.125]);
    assert_eq!(pixels("preprocessor_config.json", &own).unwrap(), found);
    let wrong = json!({"image_processor": {"resample": 9}});
    let said = pixels("processor_config.json", &wrong).unwrap_err().to_string();
    assert!(said.contains("processor_config.json: resample is 9"), "{said}");
    // An older file of all processors has no settings of images.
    let defaults = pixels("preprocessor_config.json", &json!({"do_resize": false})).unwrap();
    let flat = pixels("processor_config.json", &json!({"image_seq_length": 4})).unwrap();
    assert_eq!(flat.len(), 3 * 12 * 12);
    assert_eq!([flat[0], flat[144]], [defaults[0], defaults[1]]);
}

#[test]
fn numbers_are_rescaled_and_normalized_by_channel() {
    let settings = json!({
        "size": 12, "image_mean": [0.1, 0.2, 0.3], "image_std": [0.5, 0.25, 1.0], "rescale_factor": 0.01,
    });
    let input = processor(&settings).unwrap().read(&[100; 12 * 12 * 3], [12, 12]).unwrap();
    for (c, expected) in [1.8, 3.2, 0.7_f32].into_iter().enumerate() {
        // Three roundings of numbers below 4, by which the error is below 3 · 2⁻²².
        assert!((input.pixels[c * 144] - expected).abs() < 3.0 * f32::EPSILON * 2.0, "{c}");
    }
    let left = processor(&json!({"do_resize": false})).unwrap();
    assert_eq!(left.read(&image(2, 5), [2, 5]).unwrap().pixels.len(), 30);
}

#[test]
fn settings_and_images_that_make_no_sense_are_refused() {
    for (settings, part) in [
        (
            json!({"size": {"shortest_edge": 12, "longest_edge": 14}}),
            "preprocessor_config.json: size is",
        ),
        (json!({"size": {"shortest_edge": -1}}), "size is"),
        (json!({"do_center_crop": true, "crop_size": {"height": 9}}), "crop_size is"),
        (json!({"size": 0}), "size is 0"),
        (json!({"resample": 9}), "resample is 9"),
        (json!({"image_mean": [1, 2]}), "image_mean is [1,2]"),
    ] {
        let said = processor(&settings).unwrap_err().to_string();
        assert!(said.contains(part), "{said}");
    }
    let usual = processor(&json!({})).unwrap();
    assert!(usual.read(&[0; 10], [2, 2]).is_err());
    assert!(usual.read(&[], [0, 0]).is_err());
    // The first is too large when it is done, and the second one when its rows are.
    for (size, pixels) in [([65_535, 65_535], [2, 2]), ([12, 65_535], [65_535, 1])] {
        let large = json!({"size": {"height": size[0], "width": size[1]}});
        let image = vec![0; pixels[0] * pixels[1] * 3];
        let said = processor(&large).unwrap().read(&image, pixels).unwrap_err().to_string();
        assert!(said.ends_with("takes more than 2097152 pixels"), "{said}");
    }
}

/// A JPEG file of one colour whose frame announces 3000 × 3000 pixels: 27 MB of colours, but 99 MB with the coefficients of all
/// scans.
#[cfg(feature = "images")]
fn announcing(frame: u8) -> Vec<u8> {
    let mut file = std::io::Cursor::new(Vec::new());
    let small = image::RgbImage::from_pixel(8, 8, image::Rgb([90, 120, 30]));
    small.write_to(&mut file, image::ImageFormat::Jpeg).unwrap();
    let mut file = file.into_inner();
    let place =
        |file: &[u8], marker: u8| file.windows(2).position(|pair| pair == [0xFF, marker]).unwrap();
    let at = place(&file, 0xC0);
    file[at + 1] = frame;
    for side in [at + 5, at + 7] {
        file[side..side + 2].copy_from_slice(&3000_u16.to_be_bytes());
    }
    file
}

#[cfg(feature = "images")]
#[test]
fn an_image_that_needs_more_memory_than_its_file_allows_is_refused() {
    let refuses = |file: &[u8]| {
        let read = regard_models::read_image(file);
        read.is_err_and(|e| e.to_string().contains("limit"))
    };
    assert!(!refuses(&announcing(0xC0)), "all of a baseline frame's components in one scan");
    assert!(refuses(&announcing(0xC2)), "progressive");
    let file = announcing(0xC0);
    let filled = [&file[..2], &[0xFF], &file[2..]].concat();
    assert!(refuses(&filled), "what a byte before a marker hides");
}
