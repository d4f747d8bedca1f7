//! Prints the assembler include: `cargo run -p et-isa --example assembler_include > et.inc`.

fn main() {
    print!("{}", et_isa::assembler_include());
}
