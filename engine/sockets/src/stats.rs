//! What repeats say together.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// Mean and spread of several results.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation of the sample (n - 1); 0 for a single value.
    pub stddev: f64,
    /// How many values.
    pub n: usize,
    /// Half the width of the 95 % confidence interval of the mean by
    /// Student's t, so mean +- ci95; none for a single value. It supposes
    /// values that are independent and not skewed.
    pub ci95: Option<f64>,
}

/// Sums up `values`; none of an empty slice.
pub fn summarise(values: &[f64]) -> Option<Summary> {
    let n = values.len();
    if n == 0 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / n as f64;
    if n == 1 {
        return Some(Summary {
            mean,
            stddev: 0.0,
            n,
            ci95: None,
        });
    }
    let freedom = (n - 1) as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let stddev = (squares / freedom).sqrt();
    // 97.5 %: half of the remaining 5 % lies on the other side.
    let quantile = StudentsT::new(0.0, 1.0, freedom).map(|t| t.inverse_cdf(0.975));
    Some(Summary {
        mean,
        stddev,
        n,
        ci95: quantile.ok().map(|t| t * stddev / (n as f64).sqrt()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_students() {
        // t(0.975, 4) = 2.7764; stddev of 1..5 is sqrt(2.5).
        let summary = summarise(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert!((summary.mean - 3.0).abs() < 1e-12);
        assert!((summary.stddev - 2.5f64.sqrt()).abs() < 1e-12);
        assert!((summary.ci95.unwrap() - 2.776_445 * (2.5f64 / 5.0).sqrt()).abs() < 1e-4);
        // t(0.975, 1) = 12.706.
        let pair = summarise(&[0.0, 2.0]).unwrap();
        assert!((pair.ci95.unwrap() - 12.706_2).abs() < 1e-3);
    }

    #[test]
    fn one_value_has_no_interval_and_none_no_summary() {
        let one = summarise(&[7.0]).unwrap();
        assert_eq!((one.mean, one.stddev, one.n, one.ci95), (7.0, 0.0, 1, None));
        assert_eq!(summarise(&[]), None);
    }
}
