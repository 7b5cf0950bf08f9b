"""Which of a kernel's declared configurations a launch takes."""
