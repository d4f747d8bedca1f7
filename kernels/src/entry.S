// Entry under the firmware's ABI: a0 = launch arguments, a1 = environment, sp = this hart's 4 KiB stack,
// every other integer register 0. There is nowhere to return to: the firmware takes the result by ecall 8.
#include "et_command.h"

    .section .text.entry, "ax"
    .globl _start
_start:
    call et_main
    mv a1, a0
    li a0, 8
    li a2, 0
    ecall

    .section .note.et, "a", @note
    .balign 4
    .4byte 3            // "ET" and its terminator
    .4byte 4            // bytes of the description
    .4byte 1            // type: version of et_command.h
    .asciz "ET"
    .balign 4
    .4byte ET_IMAGE_ABI
