//! The one list of instructions. Everything else in this crate is derived from it.
//!
//! One row: variant, mnemonic, match, mask, operand form, class, status, section of the ISA fact sheet, meaning.
//! `word & mask == match` selects the row. A new instruction is one row here and one arm in the executor, which
//! the compiler asks for.

/// Hands the whole table to the macro `$visit`.
macro_rules! for_each_insn {
    ($visit:ident) => {
        $visit! {
            Lui, "lui", 0x00000037, 0x0000007f, XdUpper, Int, Works, "1.1", "rd = imm20 << 12";
            Auipc, "auipc", 0x00000017, 0x0000007f, XdUpper, Int, Works, "1.1", "rd = pc + (imm20 << 12)";
            Jal, "jal", 0x0000006f, 0x0000007f, XdJump, Branch, Works, "1.1", "rd = next pc; pc += offset";
            Jalr, "jalr", 0x00000067, 0x0000707f, XdOffset, Branch, Works, "1.1", "rd = next pc; pc = (rs1 + imm) & ~1";
            Beq, "beq", 0x00000063, 0x0000707f, X1X2Branch, Branch, Works, "1.1", "branch if rs1 == rs2";
            Bne, "bne", 0x00001063, 0x0000707f, X1X2Branch, Branch, Works, "1.1", "branch if rs1 != rs2";
            Blt, "blt", 0x00004063, 0x0000707f, X1X2Branch, Branch, Works, "1.1", "branch if rs1 < rs2";
            Bge, "bge", 0x00005063, 0x0000707f, X1X2Branch, Branch, Works, "1.1", "branch if rs1 >= rs2";
            Bltu, "bltu", 0x00006063, 0x0000707f, X1X2Branch, Branch, Works, "1.1", "branch if rs1 < rs2, unsigned";
            Bgeu, "bgeu", 0x00007063, 0x0000707f, X1X2Branch, Branch, Works, "1.1", "branch if rs1 >= rs2, unsigned";
            Lb, "lb", 0x00000003, 0x0000707f, XdOffset, Load, Works, "1.1", "load a sign-extended byte";
            Lh, "lh", 0x00001003, 0x0000707f, XdOffset, Load, Works, "1.1", "load a sign-extended half";
            Lw, "lw", 0x00002003, 0x0000707f, XdOffset, Load, Works, "1.1", "load a sign-extended word";
            Ld, "ld", 0x00003003, 0x0000707f, XdOffset, Load, Works, "1.1", "load a double word";
            Lbu, "lbu", 0x00004003, 0x0000707f, XdOffset, Load, Works, "1.1", "load a zero-extended byte";
            Lhu, "lhu", 0x00005003, 0x0000707f, XdOffset, Load, Works, "1.1", "load a zero-extended half";
            Lwu, "lwu", 0x00006003, 0x0000707f, XdOffset, Load, Works, "1.1", "load a zero-extended word";
            Sb, "sb", 0x00000023, 0x0000707f, X2Offset, Store, Works, "1.1", "store a byte";
            Sh, "sh", 0x00001023, 0x0000707f, X2Offset, Store, Works, "1.1", "store a half";
            Sw, "sw", 0x00002023, 0x0000707f, X2Offset, Store, Works, "1.1", "store a word";
            Sd, "sd", 0x00003023, 0x0000707f, X2Offset, Store, Works, "1.1", "store a double word";
            Addi, "addi", 0x00000013, 0x0000707f, XdX1Imm12, Int, Works, "1.1", "rd = rs1 + imm";
            Slti, "slti", 0x00002013, 0x0000707f, XdX1Imm12, Int, Works, "1.1", "rd = rs1 < imm";
            Sltiu, "sltiu", 0x00003013, 0x0000707f, XdX1Imm12, Int, Works, "1.1", "rd = rs1 < imm, unsigned";
            Xori, "xori", 0x00004013, 0x0000707f, XdX1Imm12, Int, Works, "1.1", "rd = rs1 ^ imm";
            Ori, "ori", 0x00006013, 0x0000707f, XdX1Imm12, Int, Works, "1.1", "rd = rs1 | imm";
            Andi, "andi", 0x00007013, 0x0000707f, XdX1Imm12, Int, Works, "1.1", "rd = rs1 & imm";
            Slli, "slli", 0x00001013, 0xfc00707f, XdX1Shift6, Int, Works, "1.1", "rd = rs1 << shamt";
            Srli, "srli", 0x00005013, 0xfc00707f, XdX1Shift6, Int, Works, "1.1", "rd = rs1 >> shamt, logical";
            Srai, "srai", 0x40005013, 0xfc00707f, XdX1Shift6, Int, Works, "1.1", "rd = rs1 >> shamt, arithmetic";
            Add, "add", 0x00000033, 0xfe00707f, XdX1X2, Int, Works, "1.1", "rd = rs1 + rs2";
            Sub, "sub", 0x40000033, 0xfe00707f, XdX1X2, Int, Works, "1.1", "rd = rs1 - rs2";
            Sll, "sll", 0x00001033, 0xfe00707f, XdX1X2, Int, Works, "1.1", "rd = rs1 << rs2[5:0]";
            Slt, "slt", 0x00002033, 0xfe00707f, XdX1X2, Int, Works, "1.1", "rd = rs1 < rs2";
            Sltu, "sltu", 0x00003033, 0xfe00707f, XdX1X2, Int, Works, "1.1", "rd = rs1 < rs2, unsigned";
            Xor, "xor", 0x00004033, 0xfe00707f, XdX1X2, Int, Works, "1.1", "rd = rs1 ^ rs2";
            Srl, "srl", 0x00005033, 0xfe00707f, XdX1X2, Int, Works, "1.1", "rd = rs1 >> rs2[5:0], logical";
            Sra, "sra", 0x40005033, 0xfe00707f, XdX1X2, Int, Works, "1.1", "rd = rs1 >> rs2[5:0], arithmetic";
            Or, "or", 0x00006033, 0xfe00707f, XdX1X2, Int, Works, "1.1", "rd = rs1 | rs2";
            And, "and", 0x00007033, 0xfe00707f, XdX1X2, Int, Works, "1.1", "rd = rs1 & rs2";
            Addiw, "addiw", 0x0000001b, 0x0000707f, XdX1Imm12, Int, Works, "1.1", "rd = sx32(rs1 + imm)";
            Slliw, "slliw", 0x0000101b, 0xfe00707f, XdX1Shift5, Int, Works, "1.1", "rd = sx32(rs1 << shamt)";
            Srliw, "srliw", 0x0000501b, 0xfe00707f, XdX1Shift5, Int, Works, "1.1", "rd = sx32(rs1[31:0] >> shamt)";
            Sraiw, "sraiw", 0x4000501b, 0xfe00707f, XdX1Shift5, Int, Works, "1.1", "rd = sx32(rs1[31:0] >> shamt), arithmetic";
            Addw, "addw", 0x0000003b, 0xfe00707f, XdX1X2, Int, Works, "1.1", "rd = sx32(rs1 + rs2)";
            Subw, "subw", 0x4000003b, 0xfe00707f, XdX1X2, Int, Works, "1.1", "rd = sx32(rs1 - rs2)";
            Sllw, "sllw", 0x0000103b, 0xfe00707f, XdX1X2, Int, Works, "1.1", "rd = sx32(rs1 << rs2[4:0])";
            Srlw, "srlw", 0x0000503b, 0xfe00707f, XdX1X2, Int, Works, "1.1", "rd = sx32(rs1[31:0] >> rs2[4:0])";
            Sraw, "sraw", 0x4000503b, 0xfe00707f, XdX1X2, Int, Works, "1.1", "rd = sx32(rs1[31:0] >> rs2[4:0], arithmetic)";
            Mul, "mul", 0x02000033, 0xfe00707f, XdX1X2, MulDiv, Works, "1.1", "rd = low 64 bits of rs1 * rs2";
            Mulh, "mulh", 0x02001033, 0xfe00707f, XdX1X2, MulDiv, Works, "1.1", "rd = high 64 bits of rs1 * rs2";
            Mulhsu, "mulhsu", 0x02002033, 0xfe00707f, XdX1X2, MulDiv, Works, "1.1", "rd = high 64 bits of signed rs1 * unsigned rs2";
            Mulhu, "mulhu", 0x02003033, 0xfe00707f, XdX1X2, MulDiv, Works, "1.1", "rd = high 64 bits of rs1 * rs2, unsigned";
            Div, "div", 0x02004033, 0xfe00707f, XdX1X2, MulDiv, Works, "1.1", "rd = rs1 / rs2";
            Divu, "divu", 0x02005033, 0xfe00707f, XdX1X2, MulDiv, Works, "1.1", "rd = rs1 / rs2, unsigned";
            Rem, "rem", 0x02006033, 0xfe00707f, XdX1X2, MulDiv, Works, "1.1", "rd = rs1 % rs2";
            Remu, "remu", 0x02007033, 0xfe00707f, XdX1X2, MulDiv, Works, "1.1", "rd = rs1 % rs2, unsigned";
            Mulw, "mulw", 0x0200003b, 0xfe00707f, XdX1X2, MulDiv, Works, "1.1", "rd = sx32 of 32-bit rs1 * rs2";
            Divw, "divw", 0x0200403b, 0xfe00707f, XdX1X2, MulDiv, Works, "1.1", "rd = sx32 of 32-bit rs1 / rs2";
            Divuw, "divuw", 0x0200503b, 0xfe00707f, XdX1X2, MulDiv, Works, "1.1", "rd = sx32 of 32-bit rs1 / rs2, unsigned";
            Remw, "remw", 0x0200603b, 0xfe00707f, XdX1X2, MulDiv, Works, "1.1", "rd = sx32 of 32-bit rs1 % rs2";
            Remuw, "remuw", 0x0200703b, 0xfe00707f, XdX1X2, MulDiv, Works, "1.1", "rd = sx32 of 32-bit rs1 % rs2, unsigned";
            Fence, "fence", 0x0000000f, 0x0000707f, Fence, System, Works, "1.1", "order this hart's L1 accesses";
            FenceI, "fence.i", 0x0000100f, 0x0000707f, None, System, Mcode, "1.2", "instruction fence";
            Ecall, "ecall", 0x00000073, 0xffffffff, None, System, Works, "1.1", "system call";
            Ebreak, "ebreak", 0x00100073, 0xffffffff, None, System, Works, "1.1", "breakpoint";
            SfenceVma, "sfence.vma", 0x12000073, 0xfe007fff, X1X2, System, Mcode, "1.2", "privileged";
            Sret, "sret", 0x10200073, 0xffffffff, None, System, Illegal, "1.1", "privileged";
            Mret, "mret", 0x30200073, 0xffffffff, None, System, Illegal, "1.1", "privileged";
            Wfi, "wfi", 0x10500073, 0xffffffff, None, System, Illegal, "1.1", "privileged";
            Csrrw, "csrrw", 0x00001073, 0x0000707f, XdCsrX1, Csr, Works, "3", "rd = csr; csr = rs1";
            Csrrs, "csrrs", 0x00002073, 0x0000707f, XdCsrX1, Csr, Works, "3", "rd = csr; csr |= rs1";
            Csrrc, "csrrc", 0x00003073, 0x0000707f, XdCsrX1, Csr, Works, "3", "rd = csr; csr &= ~rs1";
            Csrrwi, "csrrwi", 0x00005073, 0x0000707f, XdCsrImm5, Csr, Works, "3", "rd = csr; csr = imm5";
            Csrrsi, "csrrsi", 0x00006073, 0x0000707f, XdCsrImm5, Csr, Works, "3", "rd = csr; csr |= imm5";
            Csrrci, "csrrci", 0x00007073, 0x0000707f, XdCsrImm5, Csr, Works, "3", "rd = csr; csr &= ~imm5";
            Flw, "flw", 0x00002007, 0x0000707f, FdOffset, FpLoad, Works, "2.8", "lane 0 = word; other lanes = 0";
            Fsw, "fsw", 0x00002027, 0x0000707f, F2Offset, FpStore, Works, "2.8", "store lane 0";
            FmaddS, "fmadd.s", 0x00000043, 0x0600007f, FdF1F2F3Rm, Fp, Works, "1.4", "fd = fs1 * fs2 + fs3, fused";
            FmsubS, "fmsub.s", 0x00000047, 0x0600007f, FdF1F2F3Rm, Fp, Works, "1.4", "fd = fs1 * fs2 - fs3, fused";
            FnmsubS, "fnmsub.s", 0x0000004b, 0x0600007f, FdF1F2F3Rm, Fp, Works, "1.4", "fd = -(fs1 * fs2) + fs3, fused";
            FnmaddS, "fnmadd.s", 0x0000004f, 0x0600007f, FdF1F2F3Rm, Fp, Works, "1.4", "fd = -(fs1 * fs2) - fs3, fused";
            FaddS, "fadd.s", 0x00000053, 0xfe00007f, FdF1F2Rm, Fp, Works, "1.4", "fd = fs1 + fs2";
            FsubS, "fsub.s", 0x08000053, 0xfe00007f, FdF1F2Rm, Fp, Works, "1.4", "fd = fs1 - fs2";
            FmulS, "fmul.s", 0x10000053, 0xfe00007f, FdF1F2Rm, Fp, Works, "1.4", "fd = fs1 * fs2";
            FdivS, "fdiv.s", 0x18000053, 0xfe00007f, FdF1F2Rm, Fp, Mcode, "1.2", "fd = fs1 / fs2";
            FsqrtS, "fsqrt.s", 0x58000053, 0xfff0007f, FdF1Rm, Fp, Mcode, "1.2", "fd = sqrt(fs1)";
            FsgnjS, "fsgnj.s", 0x20000053, 0xfe00707f, FdF1F2, Fp, Works, "1.4", "fd = fs1 with the sign of fs2";
            FsgnjnS, "fsgnjn.s", 0x20001053, 0xfe00707f, FdF1F2, Fp, Works, "1.4", "fd = fs1 with the inverted sign of fs2";
            FsgnjxS, "fsgnjx.s", 0x20002053, 0xfe00707f, FdF1F2, Fp, Works, "1.4", "fd = fs1 with the signs multiplied";
            FminS, "fmin.s", 0x28000053, 0xfe00707f, FdF1F2, Fp, Works, "1.4", "fd = min(fs1, fs2)";
            FmaxS, "fmax.s", 0x28001053, 0xfe00707f, FdF1F2, Fp, Works, "1.4", "fd = max(fs1, fs2)";
            FleS, "fle.s", 0xa0000053, 0xfe00707f, XdF1F2, Fp, Works, "1.5", "rd = fs1 <= fs2";
            FltS, "flt.s", 0xa0001053, 0xfe00707f, XdF1F2, Fp, Works, "1.5", "rd = fs1 < fs2";
            FeqS, "feq.s", 0xa0002053, 0xfe00707f, XdF1F2, Fp, Works, "1.5", "rd = fs1 == fs2";
            FcvtWS, "fcvt.w.s", 0xc0000053, 0xfff0007f, XdF1Rm, Fp, Works, "1.4", "rd = i32 of fs1";
            FcvtWuS, "fcvt.wu.s", 0xc0100053, 0xfff0007f, XdF1Rm, Fp, Works, "1.4", "rd = u32 of fs1, sign-extended";
            FcvtLS, "fcvt.l.s", 0xc0200053, 0xfff0007f, XdF1Rm, Fp, Mcode, "1.2", "rd = i64 of fs1";
            FcvtLuS, "fcvt.lu.s", 0xc0300053, 0xfff0007f, XdF1Rm, Fp, Mcode, "1.2", "rd = u64 of fs1";
            FcvtSW, "fcvt.s.w", 0xd0000053, 0xfff0007f, FdX1Rm, Fp, Works, "1.4", "fd = f32 of i32 rs1";
            FcvtSWu, "fcvt.s.wu", 0xd0100053, 0xfff0007f, FdX1Rm, Fp, Works, "1.4", "fd = f32 of u32 rs1";
            FcvtSL, "fcvt.s.l", 0xd0200053, 0xfff0007f, FdX1Rm, Fp, Mcode, "1.2", "fd = f32 of i64 rs1";
            FcvtSLu, "fcvt.s.lu", 0xd0300053, 0xfff0007f, FdX1Rm, Fp, Mcode, "1.2", "fd = f32 of u64 rs1";
            FmvXW, "fmv.x.w", 0xe0000053, 0xfff0707f, XdF1, Fp, Works, "1.4", "rd = sx32(lane 0)";
            FclassS, "fclass.s", 0xe0001053, 0xfff0707f, XdF1, Fp, Works, "1.5", "rd = class of fs1";
            FmvWX, "fmv.w.x", 0xf0000053, 0xfff0707f, FdX1, Fp, Works, "1.4", "lane 0 = rs1[31:0]; other lanes = 0";
            Flq2, "flq2", 0x00005007, 0x0000707f, FdOffset, VectorLoad, Works, "2.8", "256-bit load of all lanes, ignores m0";
            Fsq2, "fsq2", 0x00005027, 0x0000707f, F2Offset, VectorStore, Works, "2.8", "256-bit store of all lanes, ignores m0";
            FbcPs, "fbc.ps", 0x0000000b, 0x0000707f, FdOffset, VectorLoad, Works, "2.8", "every lane = mem32[rs1 + imm]";
            FlwPs, "flw.ps", 0x0000200b, 0x0000707f, FdOffset, VectorLoad, Works, "2.8", "lane e = mem32[rs1 + imm + 4e]";
            FbcxPs, "fbcx.ps", 0x0000300b, 0x0000707f, FdX1, VectorInt, Works, "2.5", "every lane = rs1[31:0]";
            FswPs, "fsw.ps", 0x0000600b, 0x0000707f, F2Offset, VectorStore, Works, "2.8", "mem32[rs1 + imm + 4e] = lane e";
            Fg32bPs, "fg32b.ps", 0x0800100b, 0xfe00707f, FdX1Base, Gather, Works, "2.9", "gather within one 32-byte block by the pattern in rs1";
            Fg32hPs, "fg32h.ps", 0x1000100b, 0xfe00707f, FdX1Base, Gather, Works, "2.9", "gather within one 32-byte block by the pattern in rs1";
            Fg32wPs, "fg32w.ps", 0x2000100b, 0xfe00707f, FdX1Base, Gather, Works, "2.9", "gather within one 32-byte block by the pattern in rs1";
            FgbPs, "fgb.ps", 0x4800100b, 0xfe00707f, FdF1Base, Gather, Works, "2.9", "gather sign-extended bytes at rs2 + fs1";
            FghPs, "fgh.ps", 0x5000100b, 0xfe00707f, FdF1Base, Gather, Works, "2.9", "gather sign-extended halves at rs2 + fs1";
            FgwPs, "fgw.ps", 0x6000100b, 0xfe00707f, FdF1Base, Gather, Works, "2.9", "gather words at rs2 + fs1";
            Fsc32bPs, "fsc32b.ps", 0x8800100b, 0xfe00707f, FdX1Base, Scatter, Works, "2.9", "scatter within one 32-byte block by the pattern in rs1";
            Fsc32hPs, "fsc32h.ps", 0x9000100b, 0xfe00707f, FdX1Base, Scatter, Works, "2.9", "scatter within one 32-byte block by the pattern in rs1";
            Fsc32wPs, "fsc32w.ps", 0xa000100b, 0xfe00707f, FdX1Base, Scatter, Works, "2.9", "scatter within one 32-byte block by the pattern in rs1";
            FscbPs, "fscb.ps", 0xc800100b, 0xfe00707f, FdF1Base, Scatter, Works, "2.9", "scatter bytes at rs2 + fs1";
            FschPs, "fsch.ps", 0xd000100b, 0xfe00707f, FdF1Base, Scatter, Works, "2.9", "scatter halves at rs2 + fs1";
            FscwPs, "fscw.ps", 0xe000100b, 0xfe00707f, FdF1Base, Scatter, Works, "2.9", "scatter words at rs2 + fs1";
            FlwlPs, "flwl.ps", 0x1000700b, 0xfff0707f, FdAddr1, VectorLoad, Works, "2.8", "load lanes at L2; 32-byte aligned";
            FlwgPs, "flwg.ps", 0x1200700b, 0xfff0707f, FdAddr1, VectorLoad, Works, "2.8", "load lanes at L3; 32-byte aligned";
            FswlPs, "fswl.ps", 0x5000700b, 0xfff0707f, FdAddr1, VectorStore, Works, "2.8", "store lanes at L2; 32-byte aligned";
            FswgPs, "fswg.ps", 0x5200700b, 0xfff0707f, FdAddr1, VectorStore, Works, "2.8", "store lanes at L3; 32-byte aligned";
            FgblPs, "fgbl.ps", 0x8000700b, 0xfe00707f, FdF1Base, Gather, Works, "2.9", "gather sign-extended bytes at rs2 + fs1, L2";
            FgbgPs, "fgbg.ps", 0x8200700b, 0xfe00707f, FdF1Base, Gather, Works, "2.9", "gather sign-extended bytes at rs2 + fs1, L3";
            FghlPs, "fghl.ps", 0x8800700b, 0xfe00707f, FdF1Base, Gather, Works, "2.9", "gather sign-extended halves at rs2 + fs1, L2";
            FghgPs, "fghg.ps", 0x8a00700b, 0xfe00707f, FdF1Base, Gather, Works, "2.9", "gather sign-extended halves at rs2 + fs1, L3";
            FgwlPs, "fgwl.ps", 0x9000700b, 0xfe00707f, FdF1Base, Gather, Works, "2.9", "gather words at rs2 + fs1, L2";
            FgwgPs, "fgwg.ps", 0x9200700b, 0xfe00707f, FdF1Base, Gather, Works, "2.9", "gather words at rs2 + fs1, L3";
            FscblPs, "fscbl.ps", 0xc000700b, 0xfe00707f, FdF1Base, Scatter, Works, "2.9", "scatter bytes at rs2 + fs1, L2";
            FscbgPs, "fscbg.ps", 0xc200700b, 0xfe00707f, FdF1Base, Scatter, Works, "2.9", "scatter bytes at rs2 + fs1, L3";
            FschlPs, "fschl.ps", 0xc800700b, 0xfe00707f, FdF1Base, Scatter, Works, "2.9", "scatter halves at rs2 + fs1, L2";
            FschgPs, "fschg.ps", 0xca00700b, 0xfe00707f, FdF1Base, Scatter, Works, "2.9", "scatter halves at rs2 + fs1, L3";
            FscwlPs, "fscwl.ps", 0xd000700b, 0xfe00707f, FdF1Base, Scatter, Works, "2.9", "scatter words at rs2 + fs1, L2";
            FscwgPs, "fscwg.ps", 0xd200700b, 0xfe00707f, FdF1Base, Scatter, Works, "2.9", "scatter words at rs2 + fs1, L3";
            FamoaddlPi, "famoaddl.pi", 0x0600400b, 0xfe00707f, FdF1Addr2, PackedAtomic, Works, "2.11", "per lane, at L2: fd = old mem[rs2 + fs1]; mem += fd";
            FamoswaplPi, "famoswapl.pi", 0x0e00400b, 0xfe00707f, FdF1Addr2, PackedAtomic, Works, "2.11", "per lane, at L2: fd = old mem[rs2 + fs1]; mem = fd";
            FamoandlPi, "famoandl.pi", 0x1600400b, 0xfe00707f, FdF1Addr2, PackedAtomic, Works, "2.11", "per lane, at L2: fd = old mem[rs2 + fs1]; mem &= fd";
            FamoorlPi, "famoorl.pi", 0x1e00400b, 0xfe00707f, FdF1Addr2, PackedAtomic, Works, "2.11", "per lane, at L2: fd = old mem[rs2 + fs1]; mem |= fd";
            FamoxorlPi, "famoxorl.pi", 0x2600400b, 0xfe00707f, FdF1Addr2, PackedAtomic, Works, "2.11", "per lane, at L2: fd = old mem[rs2 + fs1]; mem ^= fd";
            FamomaxlPs, "famomaxl.ps", 0x2800400b, 0xfe00707f, FdF1Addr2, PackedAtomic, Works, "2.11", "per lane, at L2: fd = old mem[rs2 + fs1]; mem max= fd";
            FamominlPi, "famominl.pi", 0x2e00400b, 0xfe00707f, FdF1Addr2, PackedAtomic, Works, "2.11", "per lane, at L2: fd = old mem[rs2 + fs1]; mem min= fd";
            FamominlPs, "famominl.ps", 0x3000400b, 0xfe00707f, FdF1Addr2, PackedAtomic, Works, "2.11", "per lane, at L2: fd = old mem[rs2 + fs1]; mem min= fd";
            FamomaxlPi, "famomaxl.pi", 0x3600400b, 0xfe00707f, FdF1Addr2, PackedAtomic, Works, "2.11", "per lane, at L2: fd = old mem[rs2 + fs1]; mem max= fd";
            FamominulPi, "famominul.pi", 0x3e00400b, 0xfe00707f, FdF1Addr2, PackedAtomic, Works, "2.11", "per lane, at L2: fd = old mem[rs2 + fs1]; mem min= (unsigned) fd";
            FamomaxulPi, "famomaxul.pi", 0x4600400b, 0xfe00707f, FdF1Addr2, PackedAtomic, Works, "2.11", "per lane, at L2: fd = old mem[rs2 + fs1]; mem max= (unsigned) fd";
            FamoaddgPi, "famoaddg.pi", 0x8600400b, 0xfe00707f, FdF1Addr2, PackedAtomic, Works, "2.11", "per lane, at L3: fd = old mem[rs2 + fs1]; mem += fd";
            FamoswapgPi, "famoswapg.pi", 0x8e00400b, 0xfe00707f, FdF1Addr2, PackedAtomic, Works, "2.11", "per lane, at L3: fd = old mem[rs2 + fs1]; mem = fd";
            FamoandgPi, "famoandg.pi", 0x9600400b, 0xfe00707f, FdF1Addr2, PackedAtomic, Works, "2.11", "per lane, at L3: fd = old mem[rs2 + fs1]; mem &= fd";
            FamoorgPi, "famoorg.pi", 0x9e00400b, 0xfe00707f, FdF1Addr2, PackedAtomic, Works, "2.11", "per lane, at L3: fd = old mem[rs2 + fs1]; mem |= fd";
            FamoxorgPi, "famoxorg.pi", 0xa600400b, 0xfe00707f, FdF1Addr2, PackedAtomic, Works, "2.11", "per lane, at L3: fd = old mem[rs2 + fs1]; mem ^= fd";
            FamomaxgPs, "famomaxg.ps", 0xa800400b, 0xfe00707f, FdF1Addr2, PackedAtomic, Works, "2.11", "per lane, at L3: fd = old mem[rs2 + fs1]; mem max= fd";
            FamomingPi, "famoming.pi", 0xae00400b, 0xfe00707f, FdF1Addr2, PackedAtomic, Works, "2.11", "per lane, at L3: fd = old mem[rs2 + fs1]; mem min= fd";
            FamomingPs, "famoming.ps", 0xb000400b, 0xfe00707f, FdF1Addr2, PackedAtomic, Works, "2.11", "per lane, at L3: fd = old mem[rs2 + fs1]; mem min= fd";
            FamomaxgPi, "famomaxg.pi", 0xb600400b, 0xfe00707f, FdF1Addr2, PackedAtomic, Works, "2.11", "per lane, at L3: fd = old mem[rs2 + fs1]; mem max= fd";
            FamominugPi, "famominug.pi", 0xbe00400b, 0xfe00707f, FdF1Addr2, PackedAtomic, Works, "2.11", "per lane, at L3: fd = old mem[rs2 + fs1]; mem min= (unsigned) fd";
            FamomaxugPi, "famomaxug.pi", 0xc600400b, 0xfe00707f, FdF1Addr2, PackedAtomic, Works, "2.11", "per lane, at L3: fd = old mem[rs2 + fs1]; mem max= (unsigned) fd";
            FbciPs, "fbci.ps", 0x0000001f, 0x0000007f, FdImm20, VectorInt, Works, "2.5", "every lane = float with upper bits imm20";
            FbciPi, "fbci.pi", 0x0000005f, 0x0000007f, FdImm20, VectorInt, Works, "2.5", "every lane = sx(imm20)";
            AmoaddlW, "amoaddl.w", 0x0000203b, 0xfe00707f, XdX2Addr1, Atomic, Works, "2.10", "at L2: rd = old mem; mem += rs2";
            AmoaddgW, "amoaddg.w", 0x0200203b, 0xfe00707f, XdX2Addr1, Atomic, Works, "2.10", "at L3: rd = old mem; mem += rs2";
            AmoswaplW, "amoswapl.w", 0x0800203b, 0xfe00707f, XdX2Addr1, Atomic, Works, "2.10", "at L2: rd = old mem; mem = rs2";
            AmoswapgW, "amoswapg.w", 0x0a00203b, 0xfe00707f, XdX2Addr1, Atomic, Works, "2.10", "at L3: rd = old mem; mem = rs2";
            AmoxorlW, "amoxorl.w", 0x2000203b, 0xfe00707f, XdX2Addr1, Atomic, Works, "2.10", "at L2: rd = old mem; mem ^= rs2";
            AmoxorgW, "amoxorg.w", 0x2200203b, 0xfe00707f, XdX2Addr1, Atomic, Works, "2.10", "at L3: rd = old mem; mem ^= rs2";
            AmoorlW, "amoorl.w", 0x4000203b, 0xfe00707f, XdX2Addr1, Atomic, Works, "2.10", "at L2: rd = old mem; mem |= rs2";
            AmoorgW, "amoorg.w", 0x4200203b, 0xfe00707f, XdX2Addr1, Atomic, Works, "2.10", "at L3: rd = old mem; mem |= rs2";
            AmoandlW, "amoandl.w", 0x6000203b, 0xfe00707f, XdX2Addr1, Atomic, Works, "2.10", "at L2: rd = old mem; mem &= rs2";
            AmoandgW, "amoandg.w", 0x6200203b, 0xfe00707f, XdX2Addr1, Atomic, Works, "2.10", "at L3: rd = old mem; mem &= rs2";
            AmominlW, "amominl.w", 0x8000203b, 0xfe00707f, XdX2Addr1, Atomic, Works, "2.10", "at L2: rd = old mem; mem min= rs2";
            AmomingW, "amoming.w", 0x8200203b, 0xfe00707f, XdX2Addr1, Atomic, Works, "2.10", "at L3: rd = old mem; mem min= rs2";
            AmomaxlW, "amomaxl.w", 0xa000203b, 0xfe00707f, XdX2Addr1, Atomic, Works, "2.10", "at L2: rd = old mem; mem max= rs2";
            AmomaxgW, "amomaxg.w", 0xa200203b, 0xfe00707f, XdX2Addr1, Atomic, Works, "2.10", "at L3: rd = old mem; mem max= rs2";
            AmominulW, "amominul.w", 0xc000203b, 0xfe00707f, XdX2Addr1, Atomic, Works, "2.10", "at L2: rd = old mem; mem min= (unsigned) rs2";
            AmominugW, "amominug.w", 0xc200203b, 0xfe00707f, XdX2Addr1, Atomic, Works, "2.10", "at L3: rd = old mem; mem min= (unsigned) rs2";
            AmomaxulW, "amomaxul.w", 0xe000203b, 0xfe00707f, XdX2Addr1, Atomic, Works, "2.10", "at L2: rd = old mem; mem max= (unsigned) rs2";
            AmomaxugW, "amomaxug.w", 0xe200203b, 0xfe00707f, XdX2Addr1, Atomic, Works, "2.10", "at L3: rd = old mem; mem max= (unsigned) rs2";
            AmocmpswaplW, "amocmpswapl.w", 0xf000203b, 0xfe00707f, XdX2Addr1, Atomic, Works, "2.10", "at L2: rd = old mem; mem = (if equal to x31) rs2";
            AmocmpswapgW, "amocmpswapg.w", 0xf200203b, 0xfe00707f, XdX2Addr1, Atomic, Works, "2.10", "at L3: rd = old mem; mem = (if equal to x31) rs2";
            AmoaddlD, "amoaddl.d", 0x0000303b, 0xfe00707f, XdX2Addr1, Atomic, Works, "2.10", "at L2: rd = old mem; mem += rs2";
            AmoaddgD, "amoaddg.d", 0x0200303b, 0xfe00707f, XdX2Addr1, Atomic, Works, "2.10", "at L3: rd = old mem; mem += rs2";
            AmoswaplD, "amoswapl.d", 0x0800303b, 0xfe00707f, XdX2Addr1, Atomic, Works, "2.10", "at L2: rd = old mem; mem = rs2";
            AmoswapgD, "amoswapg.d", 0x0a00303b, 0xfe00707f, XdX2Addr1, Atomic, Works, "2.10", "at L3: rd = old mem; mem = rs2";
            Sbl, "sbl", 0x1000303b, 0xfe007fff, X2Addr1, CoherentStore, Works, "2.10", "store a byte at L2";
            Sbg, "sbg", 0x1200303b, 0xfe007fff, X2Addr1, CoherentStore, Works, "2.10", "store a byte at L3";
            Shl, "shl", 0x1800303b, 0xfe007fff, X2Addr1, CoherentStore, Works, "2.10", "store a half at L2";
            Shg, "shg", 0x1a00303b, 0xfe007fff, X2Addr1, CoherentStore, Works, "2.10", "store a half at L3";
            AmoxorlD, "amoxorl.d", 0x2000303b, 0xfe00707f, XdX2Addr1, Atomic, Works, "2.10", "at L2: rd = old mem; mem ^= rs2";
            AmoxorgD, "amoxorg.d", 0x2200303b, 0xfe00707f, XdX2Addr1, Atomic, Works, "2.10", "at L3: rd = old mem; mem ^= rs2";
            AmoorlD, "amoorl.d", 0x4000303b, 0xfe00707f, XdX2Addr1, Atomic, Works, "2.10", "at L2: rd = old mem; mem |= rs2";
            AmoorgD, "amoorg.d", 0x4200303b, 0xfe00707f, XdX2Addr1, Atomic, Works, "2.10", "at L3: rd = old mem; mem |= rs2";
            AmoandlD, "amoandl.d", 0x6000303b, 0xfe00707f, XdX2Addr1, Atomic, Works, "2.10", "at L2: rd = old mem; mem &= rs2";
            AmoandgD, "amoandg.d", 0x6200303b, 0xfe00707f, XdX2Addr1, Atomic, Works, "2.10", "at L3: rd = old mem; mem &= rs2";
            AmominlD, "amominl.d", 0x8000303b, 0xfe00707f, XdX2Addr1, Atomic, Works, "2.10", "at L2: rd = old mem; mem min= rs2";
            AmomingD, "amoming.d", 0x8200303b, 0xfe00707f, XdX2Addr1, Atomic, Works, "2.10", "at L3: rd = old mem; mem min= rs2";
            AmomaxlD, "amomaxl.d", 0xa000303b, 0xfe00707f, XdX2Addr1, Atomic, Works, "2.10", "at L2: rd = old mem; mem max= rs2";
            AmomaxgD, "amomaxg.d", 0xa200303b, 0xfe00707f, XdX2Addr1, Atomic, Works, "2.10", "at L3: rd = old mem; mem max= rs2";
            AmominulD, "amominul.d", 0xc000303b, 0xfe00707f, XdX2Addr1, Atomic, Works, "2.10", "at L2: rd = old mem; mem min= (unsigned) rs2";
            AmominugD, "amominug.d", 0xc200303b, 0xfe00707f, XdX2Addr1, Atomic, Works, "2.10", "at L3: rd = old mem; mem min= (unsigned) rs2";
            AmomaxulD, "amomaxul.d", 0xe000303b, 0xfe00707f, XdX2Addr1, Atomic, Works, "2.10", "at L2: rd = old mem; mem max= (unsigned) rs2";
            AmomaxugD, "amomaxug.d", 0xe200303b, 0xfe00707f, XdX2Addr1, Atomic, Works, "2.10", "at L3: rd = old mem; mem max= (unsigned) rs2";
            AmocmpswaplD, "amocmpswapl.d", 0xf000303b, 0xfe00707f, XdX2Addr1, Atomic, Works, "2.10", "at L2: rd = old mem; mem = (if equal to x31) rs2";
            AmocmpswapgD, "amocmpswapg.d", 0xf200303b, 0xfe00707f, XdX2Addr1, Atomic, Works, "2.10", "at L3: rd = old mem; mem = (if equal to x31) rs2";
            Packb, "packb", 0x8000603b, 0xfe00707f, XdX1X2, Int, Works, "2.5", "rd = rs2[7:0] << 8 | rs1[7:0]";
            Bitmixb, "bitmixb", 0x8000703b, 0xfe00707f, XdX1X2, Int, Graphics, "2.7", "raster helper";
            FmaddPs, "fmadd.ps", 0x0000005b, 0x0600007f, FdF1F2F3Rm, Vector, Works, "2.2", "fd = fs1 * fs2 + fs3, fused";
            FcmovmPs, "fcmovm.ps", 0x00000077, 0xfe00707f, FdF1F2, Vector, Works, "2.2", "fd = m0 ? fs1 : fs2, every lane written";
            FmsubPs, "fmsub.ps", 0x0200005b, 0x0600007f, FdF1F2F3Rm, Vector, Works, "2.2", "fd = fs1 * fs2 - fs3, fused";
            FaddiPi, "faddi.pi", 0x0400003f, 0x0600707f, FdF1Imm10, VectorInt, Works, "2.4", "fd = fs1 + imm10";
            FnmsubPs, "fnmsub.ps", 0x0400005b, 0x0600007f, FdF1F2F3Rm, Vector, Works, "2.2", "fd = -(fs1 * fs2) + fs3, fused";
            FnmaddPs, "fnmadd.ps", 0x0600005b, 0x0600007f, FdF1F2F3Rm, Vector, Works, "2.2", "fd = -(fs1 * fs2) - fs3, fused";
            FandiPi, "fandi.pi", 0x0400103f, 0x0600707f, FdF1Imm10, VectorInt, Works, "2.4", "fd = fs1 & imm10";
            FcmovPs, "fcmov.ps", 0x0400203f, 0x0600707f, FdF1F2F3, Vector, Works, "2.2", "fd = fs1 != 0 ? fs2 : fs3";
            FaddPs, "fadd.ps", 0x0000007b, 0xfe00007f, FdF1F2Rm, Vector, Works, "2.2", "fd = fs1 + fs2";
            FaddPi, "fadd.pi", 0x0600007b, 0xfe00707f, FdF1F2, VectorInt, Works, "2.4", "fd = fs1 + fs2";
            FsllPi, "fsll.pi", 0x0600107b, 0xfe00707f, FdF1F2, VectorInt, Works, "2.4", "fd = fs1 << fs2, 0 from 32 on";
            FnotPi, "fnot.pi", 0x0600207b, 0xfe00707f, FdF1, VectorInt, Works, "2.4", "fd = ~fs1";
            Fsat8Pi, "fsat8.pi", 0x0600307b, 0xfff0707f, FdF1, VectorInt, Works, "2.4", "fd = clamp(fs1, -128, 127) & 0xFF";
            Fsatu8Pi, "fsatu8.pi", 0x0610307b, 0xfff0707f, FdF1, VectorInt, Works, "2.4", "fd = clamp(fs1, 0, 255)";
            FxorPi, "fxor.pi", 0x0600407b, 0xfe00707f, FdF1F2, VectorInt, Works, "2.4", "fd = fs1 ^ fs2";
            FsrlPi, "fsrl.pi", 0x0600507b, 0xfe00707f, FdF1F2, VectorInt, Works, "2.4", "fd = fs1 >> fs2, 0 from 32 on";
            ForPi, "for.pi", 0x0600607b, 0xfe00707f, FdF1F2, VectorInt, Works, "2.4", "fd = fs1 | fs2";
            FandPi, "fand.pi", 0x0600707b, 0xfe00707f, FdF1F2, VectorInt, Works, "2.4", "fd = fs1 & fs2";
            FsubPs, "fsub.ps", 0x0800007b, 0xfe00007f, FdF1F2Rm, Vector, Works, "2.2", "fd = fs1 - fs2";
            FsubPi, "fsub.pi", 0x0e00007b, 0xfe00707f, FdF1F2, VectorInt, Works, "2.4", "fd = fs1 - fs2";
            FsraPi, "fsra.pi", 0x0e00507b, 0xfe00707f, FdF1F2, VectorInt, Works, "2.4", "fd = fs1 >> fs2, arithmetic";
            FmulPs, "fmul.ps", 0x1000007b, 0xfe00007f, FdF1F2Rm, Vector, Works, "2.2", "fd = fs1 * fs2";
            FmulPi, "fmul.pi", 0x1600007b, 0xfe00707f, FdF1F2, VectorInt, Works, "2.4", "fd = low 32 bits of fs1 * fs2";
            FmulhPi, "fmulh.pi", 0x1600107b, 0xfe00707f, FdF1F2, VectorInt, Works, "2.4", "fd = high 32 bits of fs1 * fs2";
            FmulhuPi, "fmulhu.pi", 0x1600207b, 0xfe00707f, FdF1F2, VectorInt, Works, "2.4", "fd = high 32 bits of fs1 * fs2, unsigned";
            FdivPs, "fdiv.ps", 0x1800007b, 0xfe00007f, FdF1F2Rm, Vector, Mcode, "1.2", "fd = fs1 / fs2";
            FdivPi, "fdiv.pi", 0x1e00007b, 0xfe00707f, FdF1F2, VectorInt, Mcode, "1.2", "fd = fs1 / fs2";
            FdivuPi, "fdivu.pi", 0x1e00107b, 0xfe00707f, FdF1F2, VectorInt, Mcode, "1.2", "fd = fs1 / fs2, unsigned";
            FremPi, "frem.pi", 0x1e00207b, 0xfe00707f, FdF1F2, VectorInt, Mcode, "1.2", "fd = fs1 % fs2";
            FremuPi, "fremu.pi", 0x1e00307b, 0xfe00707f, FdF1F2, VectorInt, Mcode, "1.2", "fd = fs1 % fs2, unsigned";
            FsgnjPs, "fsgnj.ps", 0x2000007b, 0xfe00707f, FdF1F2, Vector, Works, "2.2", "fs1 with the sign of fs2";
            FsgnjnPs, "fsgnjn.ps", 0x2000107b, 0xfe00707f, FdF1F2, Vector, Works, "2.2", "fs1 with the inverted sign of fs2";
            FsgnjxPs, "fsgnjx.ps", 0x2000207b, 0xfe00707f, FdF1F2, Vector, Works, "2.2", "fs1 with the signs multiplied";
            FpackrepbPi, "fpackrepb.pi", 0x2600007b, 0xfff0707f, FdF1, VectorInt, Works, "2.5", "byte k = low byte of lane k mod 8";
            FpackrephPi, "fpackreph.pi", 0x2600107b, 0xfff0707f, FdF1, VectorInt, Works, "2.5", "half k = low half of lane k mod 8";
            FminPs, "fmin.ps", 0x2800007b, 0xfe00707f, FdF1F2, Vector, Works, "2.2", "fd = min(fs1, fs2)";
            FmaxPs, "fmax.ps", 0x2800107b, 0xfe00707f, FdF1F2, Vector, Works, "2.2", "fd = max(fs1, fs2)";
            FminPi, "fmin.pi", 0x2e00007b, 0xfe00707f, FdF1F2, VectorInt, Works, "2.4", "fd = min(fs1, fs2)";
            FmaxPi, "fmax.pi", 0x2e00107b, 0xfe00707f, FdF1F2, VectorInt, Works, "2.4", "fd = max(fs1, fs2)";
            FminuPi, "fminu.pi", 0x2e00207b, 0xfe00707f, FdF1F2, VectorInt, Works, "2.4", "fd = min(fs1, fs2), unsigned";
            FmaxuPi, "fmaxu.pi", 0x2e00307b, 0xfe00707f, FdF1F2, VectorInt, Works, "2.4", "fd = max(fs1, fs2), unsigned";
            FrcpFixRast, "frcp.fix.rast", 0x3000007b, 0xfe00707f, FdF1F2, Vector, Graphics, "2.7", "raster helper";
            FltmPi, "fltm.pi", 0x3e00007b, 0xfe007c7f, MdF1F2, Mask, Works, "2.5", "md = fs1 < fs2";
            FslliPi, "fslli.pi", 0x4e00107b, 0xfe00707f, FdF1Shift5, VectorInt, Works, "2.4", "fd = fs1 << shamt";
            FsrliPi, "fsrli.pi", 0x4e00507b, 0xfe00707f, FdF1Shift5, VectorInt, Works, "2.4", "fd = fs1 >> shamt";
            FsraiPi, "fsrai.pi", 0x4e00707b, 0xfe00707f, FdF1Shift5, VectorInt, Works, "2.4", "fd = fs1 >> shamt, arithmetic";
            Maskpopc, "maskpopc", 0x5200007b, 0xfff0707f, XdM1, Mask, Works, "2.5", "rd = ones in ms1";
            Maskpopcz, "maskpopcz", 0x5400007b, 0xfff0707f, XdM1, Mask, Works, "2.5", "rd = zeros in ms1";
            MovMX, "mov.m.x", 0x5600007b, 0xfe000c7f, MdX1Imm8, Mask, Works, "2.5", "md = (rs1 | imm8)[7:0]";
            FsqrtPs, "fsqrt.ps", 0x5800007b, 0xfff0007f, FdF1Rm, Vector, Mcode, "1.2", "fd = sqrt(fs1)";
            FroundPs, "fround.ps", 0x5810007b, 0xfff0007f, FdF1Rm, Vector, Works, "2.2", "fd = fs1 rounded to integral by rm";
            FfrcPs, "ffrc.ps", 0x5820007b, 0xfff0707f, FdF1, Vector, Works, "2.2", "fd = fs1 - trunc(fs1)";
            FlogPs, "flog.ps", 0x5830007b, 0xfff0707f, FdF1, Transcendental, Works, "2.3", "fd = log2(fs1)";
            FexpPs, "fexp.ps", 0x5840007b, 0xfff0707f, FdF1, Transcendental, Works, "2.3", "fd = 2^fs1";
            FsinPs, "fsin.ps", 0x5860007b, 0xfff0707f, FdF1, Transcendental, Mcode, "1.2", "sine";
            FrcpPs, "frcp.ps", 0x5870007b, 0xfff0707f, FdF1, Transcendental, Works, "2.3", "fd = 1 / fs1";
            FrsqPs, "frsq.ps", 0x5880007b, 0xfff0707f, FdF1, Transcendental, Mcode, "1.2", "1 / sqrt(fs1)";
            MaskpopcRast, "maskpopc.rast", 0x5e00007b, 0xfe00707f, XdM1M2, Mask, Graphics, "2.7", "raster helper";
            Masknot, "masknot", 0x6600207b, 0xfff0707f, MdM1, Mask, Works, "2.5", "md = ~ms1";
            Maskxor, "maskxor", 0x6600407b, 0xfe00707f, MdM1M2, Mask, Works, "2.5", "md = ms1 ^ ms2";
            Maskor, "maskor", 0x6600607b, 0xfe00707f, MdM1M2, Mask, Works, "2.5", "md = ms1 | ms2";
            Maskand, "maskand", 0x6600707b, 0xfe00707f, MdM1M2, Mask, Works, "2.5", "md = ms1 & ms2";
            CubefacePs, "cubeface.ps", 0x8800007b, 0xfe00707f, FdF1F2, Vector, Graphics, "2.7", "cube map helper";
            CubefaceidxPs, "cubefaceidx.ps", 0x8800107b, 0xfe00707f, FdF1F2, Vector, Graphics, "2.7", "cube map helper";
            CubesgnscPs, "cubesgnsc.ps", 0x8800207b, 0xfe00707f, FdF1F2, Vector, Graphics, "2.7", "cube map helper";
            CubesgntcPs, "cubesgntc.ps", 0x8800307b, 0xfe00707f, FdF1F2, Vector, Graphics, "2.7", "cube map helper";
            FlePs, "fle.ps", 0xa000007b, 0xfe00707f, FdF1F2, Vector, Works, "2.2", "fd = fs1 <= fs2 ? ~0 : 0";
            FltPs, "flt.ps", 0xa000107b, 0xfe00707f, FdF1F2, Vector, Works, "2.2", "fd = fs1 < fs2 ? ~0 : 0";
            FeqPs, "feq.ps", 0xa000207b, 0xfe00707f, FdF1F2, Vector, Works, "2.2", "fd = fs1 == fs2 ? ~0 : 0";
            FlemPs, "flem.ps", 0xa000407b, 0xfe00707f, MdF1F2, Mask, Works, "2.5", "md = fs1 <= fs2";
            FltmPs, "fltm.ps", 0xa000507b, 0xfe00707f, MdF1F2, Mask, Works, "2.5", "md = fs1 < fs2";
            FeqmPs, "feqm.ps", 0xa000607b, 0xfe00707f, MdF1F2, Mask, Works, "2.5", "md = fs1 == fs2";
            FlePi, "fle.pi", 0xa600007b, 0xfe00707f, FdF1F2, VectorInt, Works, "2.4", "fd = fs1 <= fs2 ? ~0 : 0";
            FltPi, "flt.pi", 0xa600107b, 0xfe00707f, FdF1F2, VectorInt, Works, "2.4", "fd = fs1 < fs2 ? ~0 : 0";
            FeqPi, "feq.pi", 0xa600207b, 0xfe00707f, FdF1F2, VectorInt, Works, "2.4", "fd = fs1 == fs2 ? ~0 : 0";
            FltuPi, "fltu.pi", 0xa600307b, 0xfe00707f, FdF1F2, VectorInt, Works, "2.4", "fd = fs1 < fs2 ? ~0 : 0, unsigned";
            FsetmPi, "fsetm.pi", 0xa600407b, 0xfff07c7f, MdF1, Mask, Works, "2.5", "md = fs1 != 0";
            FcvtPwPs, "fcvt.pw.ps", 0xc000007b, 0xfff0007f, FdF1Rm, Convert, Works, "2.6", "fd = i32 of fs1";
            FcvtPwuPs, "fcvt.pwu.ps", 0xc010007b, 0xfff0007f, FdF1Rm, Convert, Works, "2.6", "fd = u32 of fs1";
            FcvtRastPs, "fcvt.rast.ps", 0xc020007b, 0xfff0007f, FdF1, Convert, Graphics, "2.7", "graphics conversion";
            FcvtPsPw, "fcvt.ps.pw", 0xd000007b, 0xfff0007f, FdF1Rm, Convert, Works, "2.6", "fd = f32 of i32 fs1";
            FcvtPsPwu, "fcvt.ps.pwu", 0xd010007b, 0xfff0007f, FdF1Rm, Convert, Works, "2.6", "fd = f32 of u32 fs1";
            FcvtPsRast, "fcvt.ps.rast", 0xd020007b, 0xfff0007f, FdF1, Convert, Graphics, "2.7", "graphics conversion";
            FcvtPsF10, "fcvt.ps.f10", 0xd080007b, 0xfff0007f, FdF1, Convert, Graphics, "2.7", "graphics conversion";
            FcvtPsF11, "fcvt.ps.f11", 0xd090007b, 0xfff0007f, FdF1, Convert, Graphics, "2.7", "graphics conversion";
            FcvtPsF16, "fcvt.ps.f16", 0xd0a0007b, 0xfff0007f, FdF1, Convert, Works, "2.6", "fd = f32 of the half fs1[15:0]";
            FcvtPsUn24, "fcvt.ps.un24", 0xd100007b, 0xfff0007f, FdF1, Convert, Graphics, "2.7", "graphics conversion";
            FcvtPsUn16, "fcvt.ps.un16", 0xd110007b, 0xfff0007f, FdF1, Convert, Graphics, "2.7", "graphics conversion";
            FcvtPsUn10, "fcvt.ps.un10", 0xd120007b, 0xfff0007f, FdF1, Convert, Graphics, "2.7", "graphics conversion";
            FcvtPsUn8, "fcvt.ps.un8", 0xd130007b, 0xfff0007f, FdF1, Convert, Graphics, "2.7", "graphics conversion";
            FcvtPsUn2, "fcvt.ps.un2", 0xd170007b, 0xfff0007f, FdF1, Convert, Graphics, "2.7", "graphics conversion";
            FcvtPsSn16, "fcvt.ps.sn16", 0xd190007b, 0xfff0007f, FdF1, Convert, Graphics, "2.7", "graphics conversion";
            FcvtPsSn8, "fcvt.ps.sn8", 0xd1b0007b, 0xfff0007f, FdF1, Convert, Graphics, "2.7", "graphics conversion";
            MovaXM, "mova.x.m", 0xd600007b, 0xfffff07f, Xd, Mask, Works, "2.5", "rd = m7:m6:..:m0";
            MovaMX, "mova.m.x", 0xd600107b, 0xfff07fff, X1, Mask, Works, "2.5", "m7:m6:..:m0 = rs1";
            FcvtF11Ps, "fcvt.f11.ps", 0xd880007b, 0xfff0007f, FdF1, Convert, Graphics, "2.7", "graphics conversion";
            FcvtF16Ps, "fcvt.f16.ps", 0xd890007b, 0xfff0007f, FdF1, Convert, Works, "2.6", "fd = half of fs1, rounded by frm";
            FcvtF10Ps, "fcvt.f10.ps", 0xd8b0007b, 0xfff0007f, FdF1, Convert, Graphics, "2.7", "graphics conversion";
            FcvtUn24Ps, "fcvt.un24.ps", 0xd900007b, 0xfff0007f, FdF1, Convert, Graphics, "2.7", "graphics conversion";
            FcvtUn16Ps, "fcvt.un16.ps", 0xd910007b, 0xfff0007f, FdF1, Convert, Graphics, "2.7", "graphics conversion";
            FcvtUn10Ps, "fcvt.un10.ps", 0xd920007b, 0xfff0007f, FdF1, Convert, Graphics, "2.7", "graphics conversion";
            FcvtUn8Ps, "fcvt.un8.ps", 0xd930007b, 0xfff0007f, FdF1, Convert, Graphics, "2.7", "graphics conversion";
            FcvtUn2Ps, "fcvt.un2.ps", 0xd970007b, 0xfff0007f, FdF1, Convert, Graphics, "2.7", "graphics conversion";
            FcvtSn16Ps, "fcvt.sn16.ps", 0xd990007b, 0xfff0007f, FdF1, Convert, Graphics, "2.7", "graphics conversion";
            FcvtSn8Ps, "fcvt.sn8.ps", 0xd9b0007b, 0xfff0007f, FdF1, Convert, Graphics, "2.7", "graphics conversion";
            FmvzXPs, "fmvz.x.ps", 0xe000007b, 0xff80707f, XdF1Lane, VectorMove, Works, "2.5", "rd = zx32(lane idx)";
            FclassPs, "fclass.ps", 0xe000107b, 0xfff0707f, FdF1, Vector, Works, "2.2", "fd = class of fs1";
            FmvsXPs, "fmvs.x.ps", 0xe000207b, 0xff80707f, XdF1Lane, VectorMove, Works, "2.5", "rd = sx32(lane idx)";
            FswizzPs, "fswizz.ps", 0xe600007b, 0xfe00007f, FdF1Imm8, VectorMove, Works, "2.5", "lanes permuted within 128-bit halves by imm8";
        }
    };
}

use crate::form::Form;

/// The unit that executes an instruction: what a timing model, an access checker and the executor's stall rule need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Class {
    Int,
    MulDiv,
    Branch,
    Load,
    Store,
    System,
    Csr,
    Atomic,
    /// sbl, sbg, shl, shg.
    CoherentStore,
    Fp,
    FpLoad,
    FpStore,
    Vector,
    VectorInt,
    /// Lane moves and permutations.
    VectorMove,
    Convert,
    Transcendental,
    Mask,
    VectorLoad,
    VectorStore,
    Gather,
    Scatter,
    PackedAtomic,
}

impl Class {
    /// Whether the instruction uses the vector unit, its registers or its masks, and so waits for a pending
    /// tensor operation that does (sheet 3.2).
    pub const fn uses_vpu(self) -> bool {
        use Class::*;
        !matches!(self, Int | MulDiv | Branch | Load | Store | System | Csr | Atomic | CoherentStore)
    }
}

/// Whether the chip executes an instruction in U-mode (sheet 1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// Executes.
    Works,
    /// Traps to machine mode (cause 30), where the firmware ends the kernel.
    Mcode,
    /// Graphics group: illegal instruction, since the feature is off on compute shires.
    Graphics,
    /// Privileged: illegal instruction in U-mode.
    Illegal,
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The instruction.
    pub op: Op,
    /// Its mnemonic as written in assembly.
    pub mnemonic: &'static str,
    /// Fixed bits.
    pub matches: u32,
    /// Which bits are fixed.
    pub mask: u32,
    /// Operands.
    pub form: Form,
    /// Executing unit.
    pub class: Class,
    /// Whether it executes.
    pub status: Status,
    /// Section of the ISA fact sheet.
    pub section: &'static str,
    /// Meaning in one line.
    pub doc: &'static str,
}

macro_rules! define {
    ($($op:ident, $mnemonic:literal, $matches:literal, $mask:literal, $form:ident, $class:ident, $status:ident,
       $section:literal, $doc:literal;)*) => {
        /// An instruction. Compressed encodings appear as the instruction they stand for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum Op {
            $(#[doc = concat!("`", $mnemonic, "`: `", $doc, "` (", $section, ").")] $op,)*
        }

        /// All instructions, indexed by `Op as usize`.
        pub static TABLE: &[Row] = &[
            $(Row {
                op: Op::$op,
                mnemonic: $mnemonic,
                matches: $matches,
                mask: $mask,
                form: Form::$form,
                class: Class::$class,
                status: Status::$status,
                section: $section,
                doc: $doc,
            },)*
        ];
    };
}

for_each_insn!(define);

impl Op {
    /// The table row.
    pub fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }
}
