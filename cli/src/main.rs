//! `cuddy`.

fn main() -> std::process::ExitCode {
    cuddy::main()
}
