// Package secret keeps secrets: encrypted in the store (Vault), out of everything that is recorded or shown
// (Redactor), and intact on their way from one step to another (Sealer). Guard is the three together, as those use
// them who run steps.
//
// What it promises: no value that it knows, in none of the usual encodings, gets into logs, errors, inputs and notes,
// where it becomes ***; in outputs and states it becomes a sealed token, which is opened again before a handler or a
// template of the worker sees it. It knows the secrets of the vault, secret parameters, and what templates make of
// them. What a program makes of a secret by itself, other than encoding it, it cannot know.
//
// Ciphers and key derivation are the standard library's. tink-go 2.9.0 would save a hundred lines of the keyring for
// another dependency and key files of a format of its own.
package secret

import (
	"fmt"
	"regexp"

	"github.com/stepwell/stepwell"
)

// Hidden replaces a secret wherever it is shown.
const Hidden = "***"

// Limits of the vault. Shorter values than MinValue cannot be told from ordinary text.
const (
	MinValue   = 4        // bytes
	MaxValue   = 64 << 10 // bytes
	maxSecrets = 1000     // in one vault
	maxTotal   = 4 << 20  // bytes of all values
	maxName    = 128
)

// namePattern leaves the length to CheckName: {0,127} would be compiled 127 times, at the start of every command.
var namePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)

// CheckName is CodeInvalid unless a secret may have the name.
func CheckName(name string) error {
	if len(name) <= maxName && namePattern.MatchString(name) {
		return nil
	}
	return &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("%.140q is not a name of a secret", name),
		Hint: "letters, digits, _ . and -, beginning with a letter or _, at most 128"}
}

// CheckValue is CodeInvalid unless it can be a secret. The error does not show it.
func CheckValue(value string) error {
	if len(value) >= MinValue && len(value) <= MaxValue {
		return nil
	}
	return &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("the value of the secret has %d bytes", len(value)),
		Hint: fmt.Sprintf("at least %d, as shorter ones cannot be told from other text, and at most %d KiB", MinValue, MaxValue>>10)}
}
