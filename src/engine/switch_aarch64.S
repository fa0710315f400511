/* switch.h for aarch64, AAPCS64. A saved side, from its stack pointer up:
 *     +0 FPCR  +8 unused  +16 x19 .. x28  +96 x29 x30  +112 d8 .. d15 */

#define FRAME 176

#define FUNCTION(name) \
    .globl name; .hidden name; .type name, %function; .balign 16; name: .cfi_startproc; hint 34
#define END(name) .cfi_endproc; .size name, . - name

.macro SAVE
    sub sp, sp, FRAME
    .cfi_adjust_cfa_offset FRAME
    stp x19, x20, [sp, 16]
    stp x21, x22, [sp, 32]
    stp x23, x24, [sp, 48]
    stp x25, x26, [sp, 64]
    stp x27, x28, [sp, 80]
    stp x29, x30, [sp, 96]
    .cfi_rel_offset x29, 96
    .cfi_rel_offset x30, 104
    stp d8, d9, [sp, 112]
    stp d10, d11, [sp, 128]
    stp d12, d13, [sp, 144]
    stp d14, d15, [sp, 160]
    mrs x9, fpcr
    str x9, [sp]
.endm

/* Goes on with the side whose stack pointer is in sp; keeps x0. */
.macro RESTORE
    ldr x9, [sp]
    msr fpcr, x9
    ldp x19, x20, [sp, 16]
    ldp x21, x22, [sp, 32]
    ldp x23, x24, [sp, 48]
    ldp x25, x26, [sp, 64]
    ldp x27, x28, [sp, 80]
    ldp x29, x30, [sp, 96]
    ldp d8, d9, [sp, 112]
    ldp d10, d11, [sp, 128]
    ldp d12, d13, [sp, 144]
    ldp d14, d15, [sp, 160]
    add sp, sp, FRAME
    ret
.endm

    .text

/* x0 host_sp, x1 top, x2 fn, x3 arg. x19 keeps host_sp for the way back: guest code preserves it,
 * and what it points to may have changed by then. */
FUNCTION(switch_start)
    SAVE
    mov x9, sp
    str x9, [x0]
    mov x19, x0
    mov sp, x1
    msr fpcr, xzr
    mov x29, xzr
    mov x30, xzr
    .cfi_undefined x30              /* backtraces of the guest side end here */
    mov x0, x3
    blr x2
    ldr x9, [x19]
    mov sp, x9
    mov x0, xzr
    RESTORE
END(switch_start)

/* x0 guest_sp, x1 host_sp, w2 code */
FUNCTION(switch_park)
    SAVE
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    mov w0, w2
    RESTORE
END(switch_park)

/* x0 host_sp, x1 guest_sp */
FUNCTION(switch_resume)
    SAVE
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    RESTORE
END(switch_resume)

/* x0 host_sp, w1 code */
FUNCTION(switch_drop)
    .cfi_undefined x30
    mov sp, x0
    mov w0, w1
    RESTORE
END(switch_drop)

/* sp host_sp, w0 code */
FUNCTION(switch_land)
    .cfi_undefined x30
    RESTORE
END(switch_land)

/* x0 host_sp, x1 fn, x2 arg */
FUNCTION(switch_call)
    stp x29, x30, [sp, -16]!
    .cfi_adjust_cfa_offset 16
    .cfi_rel_offset x29, 0
    .cfi_rel_offset x30, 8
    mov x29, sp
    .cfi_def_cfa_register x29
    mov sp, x0
    ldr x9, [x0]
    msr fpcr, x9
    mov x0, x2
    blr x1
    msr fpcr, xzr
    mov sp, x29
    .cfi_def_cfa_register sp
    ldp x29, x30, [sp], 16
    .cfi_adjust_cfa_offset -16
    .cfi_restore x29
    .cfi_restore x30
    ret
END(switch_call)

    .section .note.GNU-stack, "", %progbits
