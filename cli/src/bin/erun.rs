//! `erun`: the same program under the name that the seed's clients call.

fn main() -> std::process::ExitCode {
    cuddy::main()
}
