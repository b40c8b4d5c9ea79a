//! The last value of a computation, with the key that it was computed from.

/// Holds the last value and its key.
///
/// The caller computes the value, because most computations can fail or need more than the key:
///
/// ```text
/// match memo.get(&key) {
///     Some(value) => value,
///     None => memo.put(key, compute()?),
/// }
/// ```
pub struct Memo<K, V>(Option<(K, V)>);

impl<K, V> Default for Memo<K, V> {
    fn default() -> Self {
        Self(None)
    }
}

impl<K: PartialEq, V: Clone> Memo<K, V> {
    /// The value of this key, if it is the key of the last value.
    pub fn get(&self, key: &K) -> Option<V> {
        self.0.as_ref().filter(|(last, _)| last == key).map(|(_, value)| value.clone())
    }

    /// Holds a value and returns it.
    pub fn put(&mut self, key: K, value: V) -> V {
        self.replace(key, value.clone());
        value
    }

    /// Holds a value and returns the previous one.
    pub fn replace(&mut self, key: K, value: V) -> Option<V> {
        self.0.replace((key, value)).map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_key_alone_has_a_value() {
        let mut memo = Memo::default();
        assert_eq!(memo.get(&1), None);
        assert_eq!(memo.put(1, "a"), "a");
        assert_eq!(memo.get(&1), Some("a"));
        assert_eq!(memo.replace(2, "b"), Some("a"));
        assert_eq!((memo.get(&1), memo.get(&2)), (None, Some("b")));
    }
}
