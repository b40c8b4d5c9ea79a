//! The header of NumPy's `.npy` files, which is one line of Python.
//!
//! The reader trusts no file: the length of a header is bounded, and dimensions are never multiplied unchecked.
//! The format: <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>.

use std::io::{self, Read};

/// The first bytes of a file.
pub const MAGIC: &[u8] = b"\x93NUMPY";

/// The maximum length of a header. NumPy reads 10,000 bytes at most.
const LONGEST: usize = 1 << 16;

/// The content of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The type of the elements, such as `<f4`. Empty for structures.
    pub descr: String,
    /// Whether the elements are in column-major order.
    pub fortran_order: bool,
    /// The dimensions.
    pub shape: Vec<usize>,
    /// The bytes before the first element.
    pub len: usize,
}

/// Reads a header, and leaves `file` at the first element.
///
/// # Errors
/// If `file` ends early or does not hold a header that can be read.
pub fn read_header(file: &mut impl Read) -> io::Result<Header> {
    let mut start = [0; 8];
    file.read_exact(&mut start)?;
    if !start.starts_with(MAGIC) {
        return Err(invalid("it does not begin as npy files do"));
    }
    let (before, text_len) = match start[6] {
        1 => {
            let mut len = [0; 2];
            file.read_exact(&mut len)?;
            (10, usize::from(u16::from_le_bytes(len)))
        }
        2 | 3 => {
            let mut len = [0; 4];
            file.read_exact(&mut len)?;
            (12, u32::from_le_bytes(len) as usize)
        }
        version => return Err(invalid(&format!("it is of the unknown version {version}"))),
    };
    if text_len > LONGEST {
        return Err(invalid(&format!("its header claims {text_len} bytes")));
    }
    let mut text = vec![0; text_len];
    file.read_exact(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    let (descr, fortran_order, shape) = parse(&text)
        .ok_or_else(|| invalid(&format!("its header cannot be read: {}", text.trim())))?;
    Ok(Header { descr, fortran_order, shape, len: before + text_len })
}

fn parse(text: &str) -> Option<(String, bool, Vec<usize>)> {
    let value = |key: &str| Some(text.split_once(&format!("'{key}':"))?.1.trim_start());
    let descr = value("descr")?;
    // A structured type has a list here.
    let descr =
        if descr.starts_with('[') { "" } else { descr.strip_prefix('\'')?.split_once('\'')?.0 };
    let order = value("fortran_order")?;
    let fortran_order = order.starts_with("True");
    if !fortran_order && !order.starts_with("False") {
        return None;
    }
    let shape = value("shape")?.strip_prefix('(')?.split_once(')')?.0;
    let shape = shape.split(',').map(str::trim).filter(|n| !n.is_empty()).map(|n| n.parse().ok());
    Some((descr.to_owned(), fortran_order, shape.collect::<Option<_>>()?))
}

fn invalid(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

/// Writes a whole file: a matrix of `f32`.
pub fn write(rows: usize, cols: usize, values: &[f32]) -> Vec<u8> {
    let mut text =
        format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {cols}), }}");
    // The elements begin at a multiple of 64.
    let unpadded = MAGIC.len() + 4 + text.len() + 1;
    text.push_str(&" ".repeat(unpadded.next_multiple_of(64) - unpadded));
    text.push('\n');
    let mut file = [MAGIC, &[1, 0], &(text.len() as u16).to_le_bytes(), text.as_bytes()].concat();
    file.extend(values.iter().flat_map(|x| x.to_le_bytes()));
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(version: u8, text: &str) -> Vec<u8> {
        let len = text.len() as u32;
        let len =
            if version == 1 { len.to_le_bytes()[..2].to_vec() } else { len.to_le_bytes().to_vec() };
        [MAGIC, &[version, 0], &len, text.as_bytes()].concat()
    }

    #[test]
    fn headers_as_numpy_writes_them() {
        let header = |text: &str| read_header(&mut file(1, text).as_slice()).unwrap();
        let h =
            header("{'descr': '<f4', 'fortran_order': False, 'shape': (12, 12, 512, 512), }   \n");
        assert_eq!(
            (h.descr.as_str(), h.fortran_order, h.shape.as_slice()),
            ("<f4", false, &[12, 12, 512, 512][..])
        );
        assert_eq!(header("{'descr': '<U7', 'fortran_order': True, 'shape': (3,), }").shape, [3]);
        assert_eq!(header("{'descr': '<f8', 'fortran_order': False, 'shape': (), }").shape, [0; 0]);
        assert_eq!(
            header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }").descr,
            ""
        );
        let long = read_header(
            &mut file(3, "{'descr': '<f2', 'fortran_order': False, 'shape': (1,), }").as_slice(),
        );
        assert_eq!(long.unwrap().len, 12 + 57);
    }

    #[test]
    fn what_is_written_can_be_read() {
        let bytes = write(2, 3, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.5]);
        let mut rest = bytes.as_slice();
        let header = read_header(&mut rest).unwrap();
        assert_eq!(
            (header.descr.as_str(), header.shape.as_slice(), header.len % 64),
            ("<f4", &[2, 3][..], 0)
        );
        assert_eq!((rest.len(), &rest[20..]), (24, &6.5_f32.to_le_bytes()[..]));
    }

    #[test]
    fn bad_headers_are_errors() {
        let refused = |bytes: &[u8]| read_header(&mut &bytes[..]).unwrap_err().to_string();
        assert!(refused(b"\x93NUMPX\x01\x00").contains("begin"));
        assert!(refused(&file(4, "")).contains("version 4"));
        assert!(refused(&file(1, "{'descr': '<f4'}")).contains("cannot be read"));
        assert!(
            refused(&file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}"))
                .contains("cannot")
        );
        let huge = "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999999,)}";
        assert!(refused(&file(1, huge)).contains("cannot"));
        let lying = [MAGIC, &[2, 0], &u32::MAX.to_le_bytes()].concat();
        assert!(refused(&lying).contains("4294967295"));
        refused(&file(1, "{'descr'")[..15]);
        refused(b"");
    }
}
