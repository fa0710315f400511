/* switch.h for x86-64, System V. A saved side, from its stack pointer up:
 *     +0 MXCSR  +4 x87 control word  +8 r15 r14 r13 r12 rbx rbp  +56 return address
 * 64 bytes: a stack pointer saved at a call is a multiple of 16 here too. */

#if defined(__CET__)
#define ENTRY endbr64
#else
#define ENTRY
#endif

#define FUNCTION(name) \
    .globl name; .hidden name; .type name, @function; .balign 16; name: .cfi_startproc; ENTRY
#define END(name) .cfi_endproc; .size name, . - name

.macro SAVE
    pushq %rbp
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %rbp, 0
    pushq %rbx
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %rbx, 0
    pushq %r12
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %r12, 0
    pushq %r13
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %r13, 0
    pushq %r14
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %r14, 0
    pushq %r15
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %r15, 0
    subq $8, %rsp
    .cfi_adjust_cfa_offset 8
    stmxcsr (%rsp)
    fnstcw 4(%rsp)
.endm

/* Goes on with the side whose stack pointer is in rsp. */
.macro RESTORE
    ldmxcsr (%rsp)
    fldcw 4(%rsp)
    addq $8, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.endm

    .section .rodata
    .balign 8
control_words: /* of a new thread */
    .long 0x1F80
    .long 0x037F

    .text

/* rdi host_sp, rsi top, rdx fn, rcx arg. rbx keeps host_sp for the way back: guest code preserves
 * it, and what it points to may have changed by then. */
FUNCTION(switch_start)
    SAVE
    movq %rsp, (%rdi)
    movq %rdi, %rbx
    movq %rsi, %rsp
    ldmxcsr control_words(%rip)
    fldcw 4+control_words(%rip)
    xorl %ebp, %ebp
    .cfi_undefined %rip             /* backtraces of the guest side end here */
    movq %rcx, %rdi
    callq *%rdx
    movq (%rbx), %rsp
    xorl %eax, %eax
    RESTORE
END(switch_start)

/* rdi guest_sp, rsi host_sp, edx code */
FUNCTION(switch_park)
    SAVE
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    movl %edx, %eax
    RESTORE
END(switch_park)

/* rdi host_sp, rsi guest_sp */
FUNCTION(switch_resume)
    SAVE
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    RESTORE
END(switch_resume)

/* rdi host_sp, esi code */
FUNCTION(switch_drop)
    .cfi_undefined %rip
    movq %rdi, %rsp
    movl %esi, %eax
    RESTORE
END(switch_drop)

/* rsp host_sp, eax code; the interrupted code may have been copying downwards */
FUNCTION(switch_land)
    .cfi_undefined %rip
    cld
    RESTORE
END(switch_land)

/* rdi host_sp, rsi fn, rdx arg */
FUNCTION(switch_call)
    pushq %rbp
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %rbp, 0
    movq %rsp, %rbp
    .cfi_def_cfa_register %rbp
    movq %rdi, %rsp
    ldmxcsr (%rdi)
    fldcw 4(%rdi)
    movq %rdx, %rdi
    callq *%rsi
    ldmxcsr control_words(%rip)
    fldcw 4+control_words(%rip)
    movq %rbp, %rsp
    .cfi_def_cfa_register %rsp
    popq %rbp
    .cfi_adjust_cfa_offset -8
    .cfi_restore %rbp
    ret
END(switch_call)

    .section .note.GNU-stack, "", @progbits
