//! Operations, sub-operations and element types, known by the names that a host gives them.
//!
//! A host's enum numbers differ from version to version; its names do not. What has no entry here is `Unknown`,
//! which no lowering accepts.

/// Makes a field-less enum with a name for each variant, and `Unknown` for every other name.
macro_rules! named {
    ($(#[$meta:meta])* $name:ident { $($variant:ident = $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs)]
        pub enum $name {
            $($variant,)*
            /// A name that this table does not have.
            Unknown,
        }

        impl $name {
            /// Every known variant.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// The variant that the host calls `name`.
            pub fn from_name(name: &str) -> $name {
                match name {
                    $($text => $name::$variant,)*
                    _ => $name::Unknown,
                }
            }

            /// The host's name.
            pub fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)*
                    $name::Unknown => "unknown",
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

named! {
    /// A graph node's operation (`ggml_op_name`).
    Op {
        None = "NONE",
        Dup = "DUP",
        Add = "ADD",
        AddId = "ADD_ID",
        Add1 = "ADD1",
        Acc = "ACC",
        Sub = "SUB",
        Mul = "MUL",
        Div = "DIV",
        Sqr = "SQR",
        Sqrt = "SQRT",
        Log = "LOG",
        Sin = "SIN",
        Cos = "COS",
        Sum = "SUM",
        SumRows = "SUM_ROWS",
        Cumsum = "CUMSUM",
        Mean = "MEAN",
        Argmax = "ARGMAX",
        CountEqual = "COUNT_EQUAL",
        Repeat = "REPEAT",
        RepeatBack = "REPEAT_BACK",
        Concat = "CONCAT",
        SiluBack = "SILU_BACK",
        Norm = "NORM",
        RmsNorm = "RMS_NORM",
        RmsNormBack = "RMS_NORM_BACK",
        GroupNorm = "GROUP_NORM",
        L2Norm = "L2_NORM",
        MulMat = "MUL_MAT",
        MulMatId = "MUL_MAT_ID",
        OutProd = "OUT_PROD",
        Scale = "SCALE",
        Set = "SET",
        Cpy = "CPY",
        Cont = "CONT",
        Reshape = "RESHAPE",
        View = "VIEW",
        Permute = "PERMUTE",
        Transpose = "TRANSPOSE",
        GetRows = "GET_ROWS",
        GetRowsBack = "GET_ROWS_BACK",
        SetRows = "SET_ROWS",
        Diag = "DIAG",
        DiagMaskInf = "DIAG_MASK_INF",
        DiagMaskZero = "DIAG_MASK_ZERO",
        SoftMax = "SOFT_MAX",
        SoftMaxBack = "SOFT_MAX_BACK",
        Rope = "ROPE",
        RopeBack = "ROPE_BACK",
        Clamp = "CLAMP",
        ConvTranspose1d = "CONV_TRANSPOSE_1D",
        Im2col = "IM2COL",
        Im2colBack = "IM2COL_BACK",
        Im2col3d = "IM2COL_3D",
        Col2im1d = "COL2IM_1D",
        Conv2d = "CONV_2D",
        Conv3d = "CONV_3D",
        Conv2dDw = "CONV_2D_DW",
        ConvTranspose2d = "CONV_TRANSPOSE_2D",
        Pool1d = "POOL_1D",
        Pool2d = "POOL_2D",
        Pool2dBack = "POOL_2D_BACK",
        Upscale = "UPSCALE",
        Pad = "PAD",
        PadReflect1d = "PAD_REFLECT_1D",
        Roll = "ROLL",
        Arange = "ARANGE",
        TimestepEmbedding = "TIMESTEP_EMBEDDING",
        Argsort = "ARGSORT",
        TopK = "TOP_K",
        LeakyRelu = "LEAKY_RELU",
        Tri = "TRI",
        Fill = "FILL",
        FlashAttnExt = "FLASH_ATTN_EXT",
        FlashAttnBack = "FLASH_ATTN_BACK",
        SsmConv = "SSM_CONV",
        SsmScan = "SSM_SCAN",
        WinPart = "WIN_PART",
        WinUnpart = "WIN_UNPART",
        GetRelPos = "GET_REL_POS",
        AddRelPos = "ADD_REL_POS",
        RwkvWkv6 = "RWKV_WKV6",
        GatedLinearAttn = "GATED_LINEAR_ATTN",
        RwkvWkv7 = "RWKV_WKV7",
        SolveTri = "SOLVE_TRI",
        GatedDeltaNet = "GATED_DELTA_NET",
        LightningIndexer = "LIGHTNING_INDEXER",
        Dsv4HcComb = "DSV4_HC_COMB",
        Dsv4HcPre = "DSV4_HC_PRE",
        Dsv4HcPost = "DSV4_HC_POST",
        Unary = "UNARY",
        MapCustom1 = "MAP_CUSTOM1",
        MapCustom2 = "MAP_CUSTOM2",
        MapCustom3 = "MAP_CUSTOM3",
        Custom = "CUSTOM",
        CrossEntropyLoss = "CROSS_ENTROPY_LOSS",
        CrossEntropyLossBack = "CROSS_ENTROPY_LOSS_BACK",
        OptStepAdamw = "OPT_STEP_ADAMW",
        OptStepSgd = "OPT_STEP_SGD",
        Glu = "GLU",
    }
}

named! {
    /// What a UNARY node computes (`ggml_unary_op_name`).
    UnaryOp {
        Abs = "ABS",
        Sgn = "SGN",
        Neg = "NEG",
        Step = "STEP",
        Tanh = "TANH",
        Elu = "ELU",
        Relu = "RELU",
        Sigmoid = "SIGMOID",
        Gelu = "GELU",
        GeluQuick = "GELU_QUICK",
        Silu = "SILU",
        Hardswish = "HARDSWISH",
        Hardsigmoid = "HARDSIGMOID",
        Exp = "EXP",
        Expm1 = "EXPM1",
        Softplus = "SOFTPLUS",
        GeluErf = "GELU_ERF",
        Xielu = "XIELU",
        Floor = "FLOOR",
        Ceil = "CEIL",
        Round = "ROUND",
        Trunc = "TRUNC",
    }
}

named! {
    /// What a GLU node computes (`ggml_glu_op_name`).
    GluOp {
        Reglu = "REGLU",
        Geglu = "GEGLU",
        Swiglu = "SWIGLU",
        SwigluOai = "SWIGLU_OAI",
        GegluErf = "GEGLU_ERF",
        GegluQuick = "GEGLU_QUICK",
        SwigluClamp = "SWIGLU_CLAMP",
    }
}

named! {
    /// An element type (`ggml_type_name`).
    #[allow(non_camel_case_types)]
    Type {
        F32 = "f32",
        F16 = "f16",
        BF16 = "bf16",
        F64 = "f64",
        I8 = "i8",
        I16 = "i16",
        I32 = "i32",
        I64 = "i64",
        Q1_0 = "q1_0",
        Q2_0 = "q2_0",
        Q4_0 = "q4_0",
        Q4_1 = "q4_1",
        Q5_0 = "q5_0",
        Q5_1 = "q5_1",
        Q8_0 = "q8_0",
        Q8_1 = "q8_1",
        MXFP4 = "mxfp4",
        NVFP4 = "nvfp4",
        Q2_K = "q2_K",
        Q3_K = "q3_K",
        Q4_K = "q4_K",
        Q5_K = "q5_K",
        Q6_K = "q6_K",
        IQ2_XXS = "iq2_xxs",
        IQ2_XS = "iq2_xs",
        IQ3_XXS = "iq3_xxs",
        IQ3_S = "iq3_s",
        IQ2_S = "iq2_s",
        IQ1_S = "iq1_s",
        IQ1_M = "iq1_m",
        IQ4_NL = "iq4_nl",
        IQ4_XS = "iq4_xs",
        Q8_K = "q8_K",
        TQ1_0 = "tq1_0",
        TQ2_0 = "tq2_0",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways() {
        for op in Op::ALL {
            assert_eq!(Op::from_name(op.name()), *op);
        }
        for ty in Type::ALL {
            assert_eq!(Type::from_name(ty.name()), *ty);
        }
        assert_eq!(Op::from_name("NEWER_THAN_US"), Op::Unknown);
        assert_eq!(Type::from_name("q4_K"), Type::Q4_K);
        assert_eq!(UnaryOp::from_name("GELU_ERF"), UnaryOp::GeluErf);
        assert_eq!(GluOp::from_name("SWIGLU_OAI"), GluOp::SwigluOai);
    }
}
