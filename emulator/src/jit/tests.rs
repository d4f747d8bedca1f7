//! The assembler against objdump, which shares no code with it.

use super::assembler::*;
use std::process::Command;

/// Disassembles code: one instruction a line, blanks squeezed.
fn disassemble(name: &str, code: &[u8]) -> Vec<String> {
    let path = std::env::temp_dir().join(format!("et-jit-{name}-{}.bin", std::process::id()));
    std::fs::write(&path, code).expect("a scratch file");
    let out = Command::new("objdump")
        .args(["-D", "-b", "binary", "-m", "i386:x86-64", "-M", "intel", "--no-show-raw-insn"])
        .arg(&path)
        .output()
        .expect("objdump: install binutils, this test needs it");
    let _ = std::fs::remove_file(&path);
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let lines = text.lines().filter_map(|line| line.split_once(":\t"));
    lines.map(|(_, insn)| insn.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn objdump_reads_what_was_meant() {
    use Width::{D, Q};
    const R9: Reg = Reg(9);
    let (near, far) = (Mem::at(RBX, -8), Mem::at(R12, 0x1234));
    let both = Mem::indexed(R13, R14, 0);
    let mut cases: Vec<(&str, Assembler)> = Vec::new();
    macro_rules! case {
        ($text:literal, $name:ident $($arg:tt)*) => {{
            let mut asm = Assembler::default();
            asm.$name $($arg)*;
            cases.push(($text, asm));
        }};
    }
    case!("add rax,QWORD PTR [rbx-0x8]", alu(Alu::Add, Q, RAX, near));
    case!("xor r9d,ecx", alu(Alu::Xor, D, R9, RCX));
    case!("cmp rax,QWORD PTR [r13+r14*1+0x0]", alu(Alu::Cmp, Q, RAX, both));
    case!("sub r13,0x7", alu_imm(Alu::Sub, Q, R13, 7));
    case!("and eax,0x80000000", alu_imm(Alu::And, D, RAX, i32::MIN));
    case!("add QWORD PTR [rbx-0x8],0xffffffffffffffff", alu_imm(Alu::Add, Q, near, -1));
    case!("or rax,0x12345", alu_imm(Alu::Or, Q, RAX, 0x12345));
    case!("cmp BYTE PTR [r12+0x1234],0xff", cmp_byte(far, 0xFF));
    case!("test DWORD PTR [rbx-0x8],0xe0", test_imm(near, 0xE0));
    case!("test eax,0x1f", test_imm(RAX, 31));
    case!("shl rax,0x3f", shift_imm(Shift::Left, Q, RAX, 63));
    case!("sar eax,0x1", shift_imm(Shift::Arithmetic, D, RAX, 1));
    case!("shlx rax,QWORD PTR [rbx-0x8],rcx", shift(Shift::Left, Q, RAX, near, RCX));
    case!("shrx r9d,edx,ecx", shift(Shift::Right, D, R9, RDX, RCX));
    case!("sarx rax,rax,r9", shift(Shift::Arithmetic, Q, RAX, RAX, R9));
    case!("imul rax,QWORD PTR [r12+0x1234]", imul(Q, RAX, far));
    case!("mul QWORD PTR [rbx-0x8]", mul_wide(false, near));
    case!("imul r9", mul_wide(true, R9));
    case!("div ecx", div(D, RCX));
    case!("div rcx", div(Q, RCX));
    case!("mov r15,QWORD PTR [rbp+0x0]", mov(Q, R15, Mem::at(RBP, 0)));
    case!("mov ecx,DWORD PTR [rsp+0x8]", mov(D, RCX, Mem::at(RSP, 8)));
    case!("mov rax,rdx", mov(Q, RAX, RDX));
    case!("lea rax,[rax+r14*1-0x20]", lea(RAX, Mem::indexed(RAX, R14, -32)));
    case!("mov eax,0xffffffff", mov_imm(RAX, 0xFFFF_FFFF));
    case!("mov r14d,0x5", mov_imm(R14, 5));
    case!("mov rax,0xffffffffffffffff", mov_imm(RAX, u64::MAX));
    case!("movabs rsi,0x123456789abc", mov_imm(RSI, 0x1234_5678_9ABC));
    case!("movabs r14,0xffffff7ffb080000", mov_imm(R14, 0xFFFF_FF7F_FB08_0000));
    case!("mov QWORD PTR [rbx-0x8],0xfffffffffffffffe", store_imm(near, -2));
    case!("movsx rax,BYTE PTR [r13+r14*1+0x0]", load(Load::I8, RAX, both));
    case!("movsx rax,WORD PTR [rbx-0x8]", load(Load::I16, RAX, near));
    case!("movsxd rax,DWORD PTR [rbx-0x8]", load(Load::I32, RAX, near));
    case!("movsxd rax,eax", load(Load::I32, RAX, RAX));
    case!("movzx eax,BYTE PTR [rbx-0x8]", load(Load::U8, RAX, near));
    case!("movzx eax,sil", load(Load::U8, RAX, RSI));
    case!("movzx eax,WORD PTR [rbx-0x8]", load(Load::U16, RAX, near));
    case!("mov eax,DWORD PTR [rbx-0x8]", load(Load::U32, RAX, near));
    case!("mov rax,QWORD PTR [r12+rax*1]", load(Load::U64, RAX, Mem::indexed(R12, RAX, 0)));
    case!("mov BYTE PTR [r12+rax*1],cl", store(1, Mem::indexed(R12, RAX, 0), RCX));
    case!("mov BYTE PTR [rbx-0x8],sil", store(1, near, RSI));
    case!("mov WORD PTR [r12+0x1234],r9w", store(2, far, R9));
    case!("mov DWORD PTR [rbx-0x8],eax", store(4, near, RAX));
    case!("mov QWORD PTR [r13+0x0],rax", store(8, Mem::at(R13, 0), RAX));
    case!("setb al", setcc(Cond::Below, RAX));
    case!("setl sil", setcc(Cond::Less, RSI));
    case!("prefetcht0 BYTE PTR [r12+rax*1+0x1234]", prefetch(Mem::indexed(R12, RAX, 0x1234)));
    case!("ldmxcsr DWORD PTR [rbx-0x8]", ldmxcsr(near));
    case!("stmxcsr DWORD PTR [rbx-0x8]", stmxcsr(near));
    case!("vzeroupper", vzeroupper());
    case!("push r12", push(R12));
    case!("push rbp", push(RBP));
    case!("pop r15", pop(R15));
    case!("ret", ret());
    case!("call QWORD PTR [rbx-0x8]", call(near));
    case!("jmp QWORD PTR [rax]", jump_to(Mem::at(RAX, 0)));
    case!("jmp rsi", jump_to(RSI));
    let (low, high) = (Ymm(2), Ymm(11));
    let vectors: [(&str, Vex); 47] = [
        ("vaddps", Vex::ADDPS),
        ("vmulps", Vex::MULPS),
        ("vsubps", Vex::SUBPS),
        ("vdivps", Vex::DIVPS),
        ("vminps", Vex::MINPS),
        ("vmaxps", Vex::MAXPS),
        ("vandps", Vex::ANDPS),
        ("vandnps", Vex::ANDNPS),
        ("vorps", Vex::ORPS),
        ("vxorps", Vex::XORPS),
        ("vfmadd231ps", Vex::FMADD231PS),
        ("vfmsub231ps", Vex::FMSUB231PS),
        ("vfnmadd231ps", Vex::FNMADD231PS),
        ("vfnmsub231ps", Vex::FNMSUB231PS),
        ("vpaddd", Vex::PADDD),
        ("vpsubd", Vex::PSUBD),
        ("vpmulld", Vex::PMULLD),
        ("vpand", Vex::PAND),
        ("vpandn", Vex::PANDN),
        ("vpor", Vex::POR),
        ("vpxor", Vex::PXOR),
        ("vpcmpeqd", Vex::PCMPEQD),
        ("vpcmpgtd", Vex::PCMPGTD),
        ("vpminsd", Vex::PMINSD),
        ("vpminud", Vex::PMINUD),
        ("vpmaxsd", Vex::PMAXSD),
        ("vpmaxud", Vex::PMAXUD),
        ("vpsrlvd", Vex::PSRLVD),
        ("vpsravd", Vex::PSRAVD),
        ("vpsllvd", Vex::PSLLVD),
        ("vpshufb", Vex::PSHUFB),
        ("vpermd", Vex::PERMD),
        ("vmovups", Vex::MOVUPS),
        ("vmovaps", Vex::MOVAPS),
        ("vcvtdq2ps", Vex::CVTDQ2PS),
        ("vcvtps2dq", Vex::CVTPS2DQ),
        ("vcvttps2dq", Vex::CVTTPS2DQ),
        ("vptest", Vex::PTEST),
        ("store vmovups", Vex::MOVUPS_STORE),
        ("store vmovaps", Vex::MOVAPS_STORE),
        ("vbroadcastss", Vex::BROADCASTSS),
        ("vpmovsxbd", Vex::PMOVSXBD),
        ("vpmovsxwd", Vex::PMOVSXWD),
        ("vcmpltps", Vex::CMPPS),
        ("vblendps", Vex::BLENDPS),
        ("vpshufd", Vex::PSHUFD),
        ("vblendvps", Vex::BLENDVPS),
    ];
    let mut texts = Vec::new();
    for (name, op) in vectors {
        let mut asm = Assembler::default();
        let text = match op {
            Vex::CMPPS => {
                asm.vector_imm(op, high, low, near, 1);
                format!("{name} ymm11,ymm2,YMMWORD PTR [rbx-0x8]")
            }
            Vex::BLENDPS => {
                asm.vector_imm(op, low, high, high, 0xF0);
                format!("{name} ymm2,ymm11,ymm11,0xf0")
            }
            Vex::PSHUFD => {
                asm.vector_imm_1(op, low, near, 0xB1);
                format!("{name} ymm2,YMMWORD PTR [rbx-0x8],0xb1")
            }
            Vex::BLENDVPS => {
                asm.blend(low, high, far, Ymm(9));
                format!("{name} ymm2,ymm11,YMMWORD PTR [r12+0x1234],ymm9")
            }
            Vex::MOVUPS_STORE | Vex::MOVAPS_STORE => {
                asm.vector1(op, high, both);
                format!("{} YMMWORD PTR [r13+r14*1+0x0],ymm11", &name[6..])
            }
            Vex::BROADCASTSS => {
                asm.vector1(op, high, near);
                format!("{name} ymm11,DWORD PTR [rbx-0x8]")
            }
            Vex::PMOVSXBD => {
                asm.vector1(op, high, near);
                format!("{name} ymm11,QWORD PTR [rbx-0x8]")
            }
            Vex::PMOVSXWD => {
                asm.vector1(op, high, near);
                format!("{name} ymm11,XMMWORD PTR [rbx-0x8]")
            }
            Vex::MOVUPS | Vex::MOVAPS | Vex::CVTDQ2PS | Vex::CVTPS2DQ | Vex::CVTTPS2DQ | Vex::PTEST => {
                asm.vector1(op, high, both);
                format!("{name} ymm11,YMMWORD PTR [r13+r14*1+0x0]")
            }
            _ => {
                asm.vector(op, high, low, high);
                asm.vector(op, low, high, far);
                texts.push(format!("{name} ymm11,ymm2,ymm11"));
                format!("{name} ymm2,ymm11,YMMWORD PTR [r12+0x1234]")
            }
        };
        texts.push(text);
        cases.push(("", asm));
    }
    case!("", scalar1(Vex::MOVSS, low, near));
    texts.push("vmovss xmm2,DWORD PTR [rbx-0x8]".into());
    case!("", scalar1(Vex::MOVD, high, R9));
    texts.push("vmovd xmm11,r9d".into());
    case!("", movmskps(RCX, high));
    texts.push("vmovmskps ecx,ymm11".into());
    case!("", vector_shift(Shift::Right, low, high, 16));
    texts.push("vpsrld ymm2,ymm11,0x10".into());
    case!("", vector_shift(Shift::Left, high, low, 1));
    texts.push("vpslld ymm11,ymm2,0x1".into());
    case!("", vector_shift(Shift::Arithmetic, high, high, 31));
    texts.push("vpsrad ymm11,ymm11,0x1f".into());
    case!("", gather(low, RAX, Ymm(0), Ymm(1)));
    texts.push("vpgatherdd ymm2,DWORD PTR [rax+ymm0*1],ymm1".into());

    let code: Vec<u8> = cases.iter().flat_map(|(_, asm)| asm.code.iter().copied()).collect();
    let plain = cases.iter().map(|(text, _)| text.to_string()).filter(|text| !text.is_empty());
    let want: Vec<String> = plain.chain(texts).collect();
    let got = disassemble("forms", &code);
    for (got, want) in got.iter().zip(&want) {
        assert_eq!(got, want);
    }
    assert_eq!(got.len(), want.len());
}

#[test]
fn jumps_reach_their_labels() {
    let mut asm = Assembler::default();
    let (back, ahead) = (asm.label(), asm.label());
    let outside = asm.outside(-0x10);
    asm.place(back);
    asm.jump(ahead);
    asm.branch(Cond::Above, back);
    asm.call_label(outside);
    asm.place(ahead);
    asm.ret();
    asm.link();
    assert_eq!(asm.offset(ahead), 16);
    assert_eq!(disassemble("jumps", &asm.code), ["jmp 0x10", "ja 0x0", "call 0xfffffffffffffff0", "ret"]);
}
