package child

import "github.com/stepwell/stepwell"

// Freeze is CodeInvalid: this system cannot.
func (p *Process) Freeze() error {
	return stepwell.Invalid("", "processes cannot be frozen on this system")
}

// Thaw does nothing.
func (p *Process) Thaw() error { return nil }
