//! Writes the CRDs' YAML into the folder that is named, `crds/yaml` in this repository.

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let folder = std::env::args_os()
        .nth(1)
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/yaml")), PathBuf::from);
    match cuddy_crds::schema::yaml_files() {
        Ok(files) => {
            for (name, text) in files {
                if let Err(error) = std::fs::write(folder.join(name), text) {
                    eprintln!("crdgen: failed to write {name} into {}: {error}", folder.display());
                    return ExitCode::FAILURE;
                }
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("crdgen: failed to make YAML: {error}");
            ExitCode::FAILURE
        }
    }
}
