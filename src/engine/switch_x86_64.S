/* switch.h for x86-64, System V. A saved side, from its stack pointer up:
 *     +0 MXCSR  +4 x87 control word  +8 r15 r14 r13 r12 rbx rbp  +56 return address
 * 64 bytes: a stack pointer saved at a call is a multiple of 16 here too. */

/* The control words of a new thread. */
#define PLAIN_MXCSR 0x1F80
#define PLAIN_X87   0x037F

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

/* Loading the words is slow, and hardly ever needed: the guest's are always those of a new thread,
 * and so are nearly every host's. Goes to \other if those saved at \at are not, MXCSR's flags left
 * aside. Uses r10. */
.macro COMPARE_WORDS at, other
    movl (\at), %r10d
    andl $~0x3F, %r10d
    cmpl $PLAIN_MXCSR, %r10d
    jne \other
    cmpw $PLAIN_X87, 4(\at)
    jne \other
.endm

/* The host's words are at rsp: loads the guest's. */
.macro GUEST_WORDS
    COMPARE_WORDS %rsp, 1f
    jmp 2f
1:  ldmxcsr control_words(%rip)
    fldcw 4+control_words(%rip)
2:
.endm

/* The guest's words are loaded, the host's are at rsp: loads those. */
.macro HOST_WORDS
    COMPARE_WORDS %rsp, 1f
    jmp 2f
1:  ldmxcsr (%rsp)
    fldcw 4(%rsp)
2:
.endm

/* Goes on with the side whose stack pointer is in rsp. */
.macro RESTORE
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
control_words:
    .long PLAIN_MXCSR
    .long PLAIN_X87

    .text

/* rdi host_sp, rsi top, rdx fn, rcx arg. rbx keeps host_sp for the way back: guest code preserves
 * it, and what it points to may have changed by then. */
FUNCTION(switch_start)
    SAVE
    movq %rsp, (%rdi)
    movq %rdi, %rbx
    GUEST_WORDS
    movq %rsi, %rsp
    xorl %ebp, %ebp
    .cfi_undefined %rip             /* backtraces of the guest side end here */
    movq %rcx, %rdi
    callq *%rdx
    movq (%rbx), %rsp
    xorl %eax, %eax
    HOST_WORDS
    RESTORE
END(switch_start)

/* rdi guest_sp, rsi host_sp, edx code */
FUNCTION(switch_park)
    SAVE
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    movl %edx, %eax
    HOST_WORDS
    RESTORE
END(switch_park)

/* rdi host_sp, rsi guest_sp */
FUNCTION(switch_resume)
    SAVE
    movq %rsp, (%rdi)
    GUEST_WORDS
    movq %rsi, %rsp
    RESTORE
END(switch_resume)

/* rdi host_sp, esi code */
FUNCTION(switch_drop)
    .cfi_undefined %rip
    movq %rdi, %rsp
    movl %esi, %eax
    HOST_WORDS
    RESTORE
END(switch_drop)

/* rsp host_sp, eax code; the interrupted code may have been copying downwards */
FUNCTION(switch_land)
    .cfi_undefined %rip
    cld
    HOST_WORDS
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
    COMPARE_WORDS %rdi, 1f
    movq %rdx, %rdi
    callq *%rsi
    jmp 2f
1:  ldmxcsr (%rdi)
    fldcw 4(%rdi)
    movq %rdx, %rdi
    callq *%rsi
    ldmxcsr control_words(%rip)
    fldcw 4+control_words(%rip)
2:  movq %rbp, %rsp
    .cfi_def_cfa_register %rsp
    popq %rbp
    .cfi_adjust_cfa_offset -8
    .cfi_restore %rbp
    ret
END(switch_call)

    .section .note.GNU-stack, "", @progbits
