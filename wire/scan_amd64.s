#include "textflag.h"

// Sixteen bytes at a time with SSE2, which every amd64 has. A comparison of
// signed bytes finds control characters and all that is not ASCII at once: both
// are less than a space.

#define FILL(byte8, reg) \
	MOVQ       $byte8, DX \
	MOVQ       DX, reg    \
	PUNPCKLQDQ reg, reg

// MARK turns the text in data into the marks of its special bytes.
#define MARK(data, tmp, tmp2) \
	MOVO    X13, tmp    \
	PCMPGTB data, tmp   \
	MOVO    X14, tmp2   \
	PCMPEQB data, tmp2  \
	PCMPEQB X15, data   \
	POR     tmp, data   \
	POR     tmp2, data

// func skipPlain(text []byte) int
TEXT ·skipPlain(SB), NOSPLIT, $0-32
	MOVQ text_base+0(FP), SI
	MOVQ text_len+8(FP), CX
	XORQ AX, AX
	FILL(0x2020202020202020, X13)
	FILL(0x2222222222222222, X14)
	FILL(0x5c5c5c5c5c5c5c5c, X15)

four:
	LEAQ     64(AX), BX
	CMPQ     BX, CX
	JGT      one
	MOVOU    (SI)(AX*1), X0
	MOVOU    16(SI)(AX*1), X1
	MOVOU    32(SI)(AX*1), X2
	MOVOU    48(SI)(AX*1), X3
	MARK(X0, X4, X5)
	MARK(X1, X6, X7)
	MARK(X2, X8, X9)
	MARK(X3, X10, X11)
	POR      X1, X0
	POR      X3, X2
	POR      X2, X0
	PMOVMSKB X0, DX
	TESTL    DX, DX
	JNE      one
	MOVQ     BX, AX
	JMP      four

one:
	LEAQ     16(AX), BX
	CMPQ     BX, CX
	JGT      done
	MOVOU    (SI)(AX*1), X0
	MARK(X0, X4, X5)
	PMOVMSKB X0, DX
	TESTL    DX, DX
	JNE      found
	MOVQ     BX, AX
	JMP      one

found:
	BSFL DX, DX
	ADDQ DX, AX

done:
	MOVQ AX, ret+24(FP)
	RET

// CLASSES makes of the sixteen bytes in X0 a bit for each that is odd (a control
// character, or not ASCII), a backslash, a quote, or may be the second of an
// escape sequence.
#define CLASSES(odd, backslash, quote, known) \
	MOVO     X13, X1       \
	PCMPGTB  X0, X1        \
	PMOVMSKB X1, odd       \
	MOVO     X15, X1       \
	PCMPEQB  X0, X1        \
	PMOVMSKB X1, backslash \
	MOVO     X14, X2       \
	PCMPEQB  X0, X2        \
	PMOVMSKB X2, quote     \
	MOVO     X10, X3       \
	PCMPEQB  X0, X3        \
	MOVO     X11, X4       \
	PCMPEQB  X0, X4        \
	PCMPEQB  X12, X0       \
	POR      X2, X1        \
	POR      X4, X3        \
	POR      X0, X1        \
	POR      X3, X1        \
	PMOVMSKB X1, known

// JOIN puts the bits of the upper sixteen bytes above those of the lower.
#define JOIN(upper, lower) \
	SHLQ $16, upper \
	ORQ  upper, lower

// func skipEscaped(text []byte) int
//
// R8 says, in bit 0, that the first byte of the block is the second of an escape
// sequence.
TEXT ·skipEscaped(SB), NOSPLIT, $0-32
	MOVQ text_base+0(FP), SI
	MOVQ text_len+8(FP), CX
	SUBQ $32, CX
	XORQ AX, AX
	XORQ R8, R8
	MOVQ $0xaaaaaaaaaaaaaaaa, DI
	FILL(0x6e6e6e6e6e6e6e6e, X10)
	FILL(0x7272727272727272, X11)
	FILL(0x7474747474747474, X12)
	FILL(0x2020202020202020, X13)
	FILL(0x2222222222222222, X14)
	FILL(0x5c5c5c5c5c5c5c5c, X15)

block:
	CMPQ  AX, CX
	JGT   end
	MOVOU 16(SI)(AX*1), X0
	CLASSES(BX, DX, R9, R15)
	MOVOU (SI)(AX*1), X0
	CLASSES(R10, R11, R12, R13)
	JOIN(BX, R10)
	JOIN(DX, R11)
	JOIN(R9, R12)
	JOIN(R15, R13)

	// A run of backslashes that begins at an even place ends, by the carry of
	// a subtraction, at an odd place when its length is odd, and the other way
	// round.
	MOVQ R8, DX
	NOTQ DX
	ANDQ R11, DX          // backslashes that begin a sequence or follow one
	LEAQ (DX)(DX*1), R15
	ORQ  DI, R15
	SUBQ DX, R15
	XORQ DI, R15          // the first bytes of sequences, and what follows runs
	ORQ  R11, R8
	XORQ R15, R8          // the second bytes of sequences
	MOVL R8, DX
	ANDQ R11, R15         // the first bytes of sequences
	SHRQ $31, R15

	// What must not be: an odd byte, an escape that is not known, a quote that
	// is not escaped.
	NOTQ R13
	ANDQ DX, R13
	ORQ  R13, R10
	MOVQ DX, R13
	NOTQ R13
	ANDQ R12, R13
	ORQ  R13, R10
	JNE  stop
	MOVQ R15, R8
	ADDQ $32, AX
	ORQ  R11, DX
	JNE  block

end:
	SUBQ R8, AX
	MOVQ AX, ret+24(FP)
	RET

stop:
	// R8 was used for other ends: the block's first byte is a second one when
	// it is marked so.
	ANDQ $1, R8
	SUBQ R8, AX
	MOVQ AX, ret+24(FP)
	RET
