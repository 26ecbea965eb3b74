//! The log: to stderr, for people or for machines. It holds no bearer, key or argument.

use std::str::FromStr;

use tracing_subscriber::EnvFilter;

/// How lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// One JSON object a line.
    #[default]
    Json,
    /// Text.
    Text,
}

/// Why the log cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum LoggingError {
    /// The format is none.
    #[error("log format {0:?} is neither json nor text")]
    Format(String),
    /// The filter is none.
    #[error("log filter {filter:?}")]
    Filter {
        /// The text.
        filter: String,
        /// Why.
        source: tracing_subscriber::filter::ParseError,
    },
    /// There is a log already.
    #[error("set up the log")]
    Twice(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl FromStr for LogFormat {
    type Err = LoggingError;

    fn from_str(text: &str) -> Result<Self, LoggingError> {
        match text {
            "json" => Ok(Self::Json),
            "text" => Ok(Self::Text),
            _ => Err(LoggingError::Format(text.to_owned())),
        }
    }
}

/// Sets up the program's log. `filter` is in the form of `RUST_LOG` (`info,cuddy_edge=debug`).
pub fn init(format: LogFormat, filter: &str) -> Result<(), LoggingError> {
    let env_filter = EnvFilter::try_new(filter)
        .map_err(|source| LoggingError::Filter { filter: filter.to_owned(), source })?;
    let builder = tracing_subscriber::fmt().with_env_filter(env_filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Json => builder.json().flatten_event(true).with_current_span(false).try_init(),
        LogFormat::Text => builder.with_ansi(false).try_init(),
    }
    .map_err(LoggingError::Twice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_have_names() {
        assert_eq!("json".parse::<LogFormat>().unwrap(), LogFormat::Json);
        assert_eq!("text".parse::<LogFormat>().unwrap(), LogFormat::Text);
        assert!("xml".parse::<LogFormat>().unwrap_err().to_string().contains("xml"));
    }

    #[test]
    fn a_bad_filter_is_named() {
        assert!(init(LogFormat::Json, "a=b=c").unwrap_err().to_string().contains("a=b=c"));
    }
}
