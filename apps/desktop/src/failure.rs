/// An error, and the exit code for its kind.
pub(crate) struct Failure {
    pub(crate) error: anyhow::Error,
    pub(crate) exit_code: u8,
}

/// An error that is not marked as the input's fault.
impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self { error, exit_code: 1 }
    }
}

/// Marks an error as the input's fault: exit code 2.
pub(crate) trait BadInput<T> {
    fn bad_input(self) -> Result<T, Failure>;
}

impl<T, E: Into<anyhow::Error>> BadInput<T> for Result<T, E> {
    fn bad_input(self) -> Result<T, Failure> {
        self.map_err(|e| Failure { error: e.into(), exit_code: 2 })
    }
}
