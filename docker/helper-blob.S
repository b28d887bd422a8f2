/* SPDX-License-Identifier: MIT */
/* The helper's bytes inside snapctl. */
	.section .rodata
	.global helper_blob
	.global helper_blob_end
	.balign 16
helper_blob:
	.incbin HELPER
helper_blob_end:
	.byte 0
	.section .note.GNU-stack,"",%progbits
