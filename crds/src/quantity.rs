//! Kubernetes quantities, as far as two of them have to be compared.

use std::cmp::Ordering;

/// A quantity in thousandths, rounded up as the API server does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Milli(i128);

/// The text is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a quantity such as 500m, 1.5 or 10Gi")]
pub struct NotAQuantity(String);

/// Reads a quantity: a decimal number with one of the suffixes m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei, or a decimal
/// exponent.
pub fn parse(text: &str) -> Result<Milli, NotAQuantity> {
    let refuse = || NotAQuantity(text.chars().take(40).collect());
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') || number.len() > 30 {
        return Err(refuse());
    }
    let digits: i128 = format!("{whole}{fraction}").parse().map_err(|_| refuse())?;
    // value = digits * numerator / denominator, in thousandths
    let (numerator, denominator): (i128, i128) = match suffix {
        "m" => (1, 1),
        "" => (1000, 1),
        "k" => (1000 * 10_i128.pow(3), 1),
        "M" => (1000 * 10_i128.pow(6), 1),
        "G" => (1000 * 10_i128.pow(9), 1),
        "T" => (1000 * 10_i128.pow(12), 1),
        "P" => (1000 * 10_i128.pow(15), 1),
        "E" => (1000 * 10_i128.pow(18), 1),
        "Ki" => (1000 << 10, 1),
        "Mi" => (1000 << 20, 1),
        "Gi" => (1000 << 30, 1),
        "Ti" => (1000 << 40, 1),
        "Pi" => (1000 << 50, 1),
        "Ei" => (1000 << 60, 1),
        "u" => (1, 1000),
        "n" => (1, 1_000_000),
        exponent => match exponent.strip_prefix(['e', 'E']).and_then(|e| e.parse::<i32>().ok()) {
            Some(power @ 0..=18) => (1000 * 10_i128.pow(power.unsigned_abs()), 1),
            Some(power @ -18..=-1) => (1000, 10_i128.pow(power.unsigned_abs())),
            _ => return Err(refuse()),
        },
    };
    let denominator = denominator * 10_i128.pow(u32::try_from(fraction.len()).map_err(|_| refuse())?);
    let product = digits.checked_mul(numerator).ok_or_else(refuse)?;
    Ok(Milli((product + denominator - 1) / denominator))
}

/// Compares two quantities by value: `1Gi` and `1024Mi` are equal.
pub fn compare(left: &str, right: &str) -> Result<Ordering, NotAQuantity> {
    Ok(parse(left)?.cmp(&parse(right)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_compare_by_value() {
        for (left, right, expected) in [
            ("1Gi", "1024Mi", Ordering::Equal),
            ("1", "1000m", Ordering::Equal),
            ("1.5Gi", "1536Mi", Ordering::Equal),
            ("1G", "1Gi", Ordering::Less),
            ("100m", "0.1", Ordering::Equal),
            ("1e3", "1k", Ordering::Equal),
            ("12E", "12e18", Ordering::Equal),
            ("0.5m", "1m", Ordering::Equal),
            ("2", "1500m", Ordering::Greater),
        ] {
            assert_eq!(compare(left, right).unwrap(), expected, "{left} {right}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for bad in [
            "",
            "x",
            "-1",
            "1 Gi",
            "1gi",
            "1..2",
            "1.2.3",
            ".",
            "1e99",
            "9999999999999999999999999999999",
            "1Gi ",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
