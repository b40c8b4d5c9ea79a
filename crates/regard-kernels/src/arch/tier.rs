//! Which vectors the kernels run on.

#[cfg(target_arch = "x86_64")]
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

#[cfg(target_arch = "x86_64")]
use super::{Avx2, Avx512};

/// Which vectors the kernels run on: the fastest that the CPU has, unless another tier is [chosen](Self::choose).
///
/// ```
/// println!("attention runs on {}", regard_kernels::Tier::active().name());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Tier {
    /// The vectors that the target was compiled for, through the `wide` crate: SSE2, NEON, wasm simd128, or more with `-C
    /// target-cpu=native`. Cortex-M and RISC-V have no vectors, and compute one number at a time.
    Portable,
    /// x86-64 with AVX2 and FMA, found at run time.
    Avx2,
    /// x86-64 with AVX-512 (F, BW, DQ and VL), AVX2 and FMA, found at run time.
    Avx512,
    /// One number at a time, as on Cortex-M and RISC-V, on x86-64 with the feature `scalar`. It serves to test on a desktop how
    /// these cores compute. It is never the fastest.
    Scalar,
}

/// The index of the active tier in [`Tier::ALL`], or [`UNKNOWN`] before the first use.
#[cfg(target_arch = "x86_64")]
static ACTIVE: AtomicU8 = AtomicU8::new(UNKNOWN);
#[cfg(target_arch = "x86_64")]
const UNKNOWN: u8 = u8::MAX;

impl Tier {
    /// All tiers, from the slowest to the fastest.
    pub const ALL: &'static [Self] = &[Self::Scalar, Self::Portable, Self::Avx2, Self::Avx512];

    /// The tier that every kernel of this process uses.
    ///
    /// It is the fastest that this CPU has, unless [`choose`](Self::choose) has set another. With the feature `std`, the
    /// environment variable `REGARD_TIER` (`portable`, `avx2`, `avx512` or `scalar`) sets it at the first use. An unknown
    /// word, or a tier that the CPU lacks, is ignored.
    #[must_use]
    #[inline]
    pub fn active() -> Self {
        #[cfg(target_arch = "x86_64")]
        return match ACTIVE.load(Relaxed) {
            UNKNOWN => Self::find(),
            0 => Self::Portable,
            1 => Self::Avx2,
            2 => Self::Avx512,
            _ => Self::Scalar,
        };
        #[cfg(not(target_arch = "x86_64"))]
        Self::Portable
    }

    #[cfg(target_arch = "x86_64")]
    #[cold]
    fn find() -> Self {
        let tier =
            from_environment().filter(|tier| tier.is_available()).unwrap_or_else(Self::fastest);
        ACTIVE.store(tier as u8, Relaxed);
        tier
    }

    /// The fastest tier that this CPU has.
    #[must_use]
    pub fn fastest() -> Self {
        let mut fastest_first = Self::ALL.iter().copied().rev();
        fastest_first.find(|tier| tier.is_available()).unwrap_or(Self::Portable)
    }

    /// Whether this program has been compiled with the tier, and this CPU has it.
    #[must_use]
    pub fn is_available(self) -> bool {
        match self {
            Self::Portable => true,
            Self::Scalar => cfg!(all(target_arch = "x86_64", any(feature = "scalar", test))),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => Avx2::new().is_some(),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => Avx512::new().is_some(),
            #[cfg(not(target_arch = "x86_64"))]
            _ => false,
        }
    }

    /// Makes this the tier of every kernel that begins from now on, in all threads. It serves tests and benchmarks. Returns
    /// whether the tier is [available](Self::is_available); if it is not, nothing changes.
    ///
    /// ```
    /// use regard_kernels::Tier;
    /// assert!(Tier::Portable.choose());
    /// assert_eq!(Tier::active(), Tier::Portable);
    /// ```
    #[must_use = "the CPU may lack it"]
    pub fn choose(self) -> bool {
        let available = self.is_available();
        #[cfg(target_arch = "x86_64")]
        if available {
            ACTIVE.store(self as u8, Relaxed);
        }
        available
    }

    /// A short name for tables and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "AVX2 + FMA",
            Self::Avx512 => "AVX-512",
            Self::Scalar => "scalar",
        }
    }

    /// The tier for a word that `REGARD_TIER` may hold: `portable`, `avx2`, `avx512` or `scalar`.
    ///
    /// ```
    /// assert_eq!(regard_kernels::Tier::from_word("avx2"), Some(regard_kernels::Tier::Avx2));
    /// ```
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "portable" => Some(Self::Portable),
            "avx2" => Some(Self::Avx2),
            "avx512" => Some(Self::Avx512),
            "scalar" => Some(Self::Scalar),
            _ => None,
        }
    }
}

/// The tier that `REGARD_TIER` names.
#[cfg(target_arch = "x86_64")]
fn from_environment() -> Option<Tier> {
    #[cfg(any(test, feature = "std"))]
    return Tier::from_word(&std::env::var("REGARD_TIER").ok()?);
    #[cfg(not(any(test, feature = "std")))]
    None
}
