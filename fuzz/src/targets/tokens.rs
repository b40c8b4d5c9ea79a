//! Lists of tokens beside a file of attention, and how tokens are shown.

pub(crate) fn fuzz(file: &[u8]) -> crate::Outcome {
    let text = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }\n";
    let header =
        [b"\x93NUMPY\x01\x00", &(text.len() as u16).to_le_bytes()[..], text.as_bytes()].concat();
    let weights =
        [header, [1.0_f32, 0.0, 0.5, 0.5].into_iter().flat_map(f32::to_le_bytes).collect()]
            .concat();
    crate::bounded(file.len(), || {
        let list = crate::attention("a.npy", &weights, Some(("a.tokens.json", file)));
        let lines = crate::attention("a.npy", &weights, Some(("a.tokens.txt", file)));
        let raw = String::from_utf8_lossy(file).split('\n').map(str::to_owned).collect::<Vec<_>>();
        let count = raw.len();
        let labels = regard_heads::readable(raw);
        assert_eq!(labels.len(), count);
        assert!(labels.iter().all(|label| !label.text.chars().any(char::is_control)));
        list.or(lines)
    })
}
