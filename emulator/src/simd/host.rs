//! Which vector instructions of the host may be used, and the one place that switches them on.

use super::Vectors;

/// What the executor may use of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// Any processor.
    Portable,
    /// x86-64 with AVX2, FMA, BMI1 and BMI2.
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
}

/// Proof that the processor has what [`Host::Avx2`] says: made only after asking it.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Avx2(());

/// No particular processor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portable;

/// Work that is compiled once for each kind of host. `run` must be `#[inline(always)]`, and so must everything in it
/// that is to profit.
pub(crate) trait Task {
    /// What the work gives.
    type Output;

    /// Does the work.
    fn run<V: Vectors>(self, vectors: V) -> Self::Output;
}

impl Host {
    /// The best that this processor has.
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
        {
            return Host::Avx2(Avx2(()));
        }
        Host::Portable
    }

    /// Does `task` with this host's instructions.
    #[inline]
    pub(crate) fn run<T: Task>(self, task: T) -> T::Output {
        match self {
            Host::Portable => task.run(Portable),
            #[cfg(target_arch = "x86_64")]
            Host::Avx2(proof) => {
                #[target_feature(enable = "avx2,fma,bmi1,bmi2")]
                unsafe fn with_avx2<T: Task>(task: T, proof: Avx2) -> T::Output {
                    task.run(proof)
                }
                // SAFETY: an `Avx2` is only made by `detect`, after the processor reported all four features.
                unsafe { with_avx2(task, proof) }
            }
        }
    }
}
