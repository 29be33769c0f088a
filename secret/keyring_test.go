package secret_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/secret"
)

func key(b byte) []byte { return bytes.Repeat([]byte{b}, 32) }

func ring(t *testing.T, keys ...[]byte) *secret.Keyring {
	t.Helper()
	r, err := secret.NewKeyring(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSealAndOpen(t *testing.T) {
	r := ring(t, key(1))
	sealed, err := r.Seal([]byte("value"), "secret a")
	if err != nil {
		t.Fatal(err)
	}
	again, _ := r.Seal([]byte("value"), "secret a")
	if bytes.Contains(sealed, []byte("value")) || bytes.Equal(sealed, again) {
		t.Fatal("not encrypted, or always in the same way")
	}
	got, err := r.Open(sealed, "secret a")
	if err != nil || string(got) != "value" {
		t.Fatalf("%q, %v", got, err)
	}
	if _, err := r.Open(sealed, "secret b"); stepwell.CodeOf(err) != stepwell.CodeInternal {
		t.Errorf("opened for something else: %v", err)
	}
	for i := range sealed {
		changed := bytes.Clone(sealed)
		changed[i] ^= 1
		if _, err := r.Open(changed, "secret a"); stepwell.CodeOf(err) != stepwell.CodeInternal {
			t.Fatalf("a change of byte %d was not noticed: %v", i, err)
		}
		if _, err := r.Open(sealed[:i], "secret a"); err == nil {
			t.Fatalf("the first %d bytes were opened", i)
		}
	}
}

func TestRotation(t *testing.T) {
	old := ring(t, key(1))
	sealed, _ := old.Seal([]byte("value"), "x")
	both := ring(t, key(2), key(1))
	if got, err := both.Open(sealed, "x"); err != nil || string(got) != "value" {
		t.Fatalf("%q, %v", got, err)
	}
	if both.Current(sealed) {
		t.Error("sealed with the former key, and current")
	}
	fresh, _ := both.Seal([]byte("value"), "x")
	if !both.Current(fresh) {
		t.Error("the first key does not seal")
	}
	_, err := old.Open(fresh, "x")
	if stepwell.CodeOf(err) != stepwell.CodeInternal || !strings.Contains(err.Error(), "not here") {
		t.Errorf("without the key: %v", err)
	}
}

func TestParseKeys(t *testing.T) {
	k := key(7)
	for _, text := range []string{hex.EncodeToString(k), base64.StdEncoding.EncodeToString(k), base64.RawURLEncoding.EncodeToString(k),
		"# comment\n\n" + hex.EncodeToString(k) + "\n" + hex.EncodeToString(key(8)) + "\n", hex.EncodeToString(k) + "," + hex.EncodeToString(key(8))} {
		r, err := secret.ParseKeys(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		sealed, _ := ring(t, k).Seal([]byte("v"), "x")
		if got, err := r.Open(sealed, "x"); err != nil || string(got) != "v" || !r.Current(sealed) {
			t.Errorf("%q: another key", text)
		}
	}
	for _, text := range []string{"", "# nothing\n", "short", hex.EncodeToString(k[:31]), hex.EncodeToString(k) + "\nhunter2-is-no-key"} {
		_, err := secret.ParseKeys(text)
		if stepwell.CodeOf(err) != stepwell.CodeInvalid {
			t.Errorf("%q: %v", text, err)
		}
		if err != nil && (strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "short")) {
			t.Errorf("the error shows the key: %v", err)
		}
	}
}

func TestOpenKeyring(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stepwell.db.key")
	first, err := secret.OpenKeyring(secret.KeyOptions{Generated: path})
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info.Mode(), err)
	}
	sealed, _ := first.Seal([]byte("v"), "x")
	for _, o := range []secret.KeyOptions{{Generated: path}, {File: path}} {
		again, err := secret.OpenKeyring(o)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := again.Open(sealed, "x"); err != nil || string(got) != "v" {
			t.Errorf("%+v: another key: %v", o, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".key-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := secret.OpenKeyring(secret.KeyOptions{File: path}); stepwell.CodeOf(err) != stepwell.CodeInvalid || !strings.Contains(stepwell.HintOf(err), "chmod 600") {
		t.Errorf("a file that others may read: %v", err)
	}
	if _, err := secret.OpenKeyring(secret.KeyOptions{File: path + "x"}); stepwell.CodeOf(err) != stepwell.CodeNotFound {
		t.Errorf("no file: %v", err)
	}
	if _, err := secret.OpenKeyring(secret.KeyOptions{}); stepwell.CodeOf(err) != stepwell.CodeInvalid {
		t.Errorf("nothing given: %v", err)
	}
}

// TestLateKeyring: no file is read or made before a key is needed, and what is wrong is told then, every time.
func TestLateKeyring(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.key")
	late, err := secret.LateKeyring(secret.KeyOptions{Generated: path})
	if err != nil {
		t.Fatal(err)
	}
	g := secret.NewGuard(objects(t), late, secret.NewRedactor())
	if err := g.LoadLate(t.Context()); err != nil {
		t.Fatal(err)
	}
	params := map[string]any{"a": "a text", "n": int64(1234567)}
	if _, err := g.SealParams(run, params, func(string) bool { return false }); err != nil {
		t.Fatal(err)
	}
	if got := g.Seal(run, []byte(`{"a": "a text"}`)); string(got) != `{"a": "a text"}` {
		t.Errorf("sealed as %s", got)
	}
	if got, err := g.Digest(t.Context(), nil); got != nil || err != nil {
		t.Errorf("the digest of nothing is %x, %v", got, err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a key that nobody needed: %v", err)
	}
	if err := os.WriteFile(path, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := g.SealParams(run, params, func(name string) bool { return name == "a" }); stepwell.CodeOf(err) != stepwell.CodeInvalid {
			t.Errorf("a secret parameter without a key: %v", err)
		}
		if _, err := g.Digest(t.Context(), []byte("x")); stepwell.CodeOf(err) != stepwell.CodeInvalid {
			t.Errorf("a digest without a key: %v", err)
		}
	}
	if got := g.Seal(run, []byte("\"\u2983sealed: is not a token\"")); string(got) != `"*** is not a token"` {
		t.Errorf("what looks sealed is kept as %s without a key", got)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	sealed, err := g.SealParams(run, params, func(name string) bool { return name == "a" })
	if err != nil || !secret.Sealed([]byte(fmt.Sprintf("%s", sealed["a"]))) {
		t.Errorf("sealed as %s, %v", sealed["a"], err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the key was not made: %v", err)
	}
	one, err := g.Digest(t.Context(), []byte("x"))
	other, oerr := secret.NewGuard(objects(t), late, secret.NewRedactor()).Digest(t.Context(), []byte("x"))
	if err != nil || oerr != nil || len(one) != 32 || string(one) == string(other) {
		t.Errorf("digests %x %x, %v %v", one, other, err, oerr)
	}
	if _, err := secret.LateKeyring(secret.KeyOptions{Text: "no key"}); stepwell.CodeOf(err) != stepwell.CodeInvalid {
		t.Errorf("a wrong variable: %v", err)
	}
}

// TestLoadLateFindsSecrets: a store that has some needs its key at once.
func TestLoadLateFindsSecrets(t *testing.T) {
	s := objects(t)
	if _, err := secret.NewGuard(s, ring(t, key(1)), secret.NewRedactor()).Vault.Set(t.Context(), "token", "long-enough", 0, ""); err != nil {
		t.Fatal(err)
	}
	late, err := secret.LateKeyring(secret.KeyOptions{File: filepath.Join(t.TempDir(), "none")})
	if err != nil {
		t.Fatal(err)
	}
	if err := secret.NewGuard(s, late, secret.NewRedactor()).LoadLate(t.Context()); stepwell.CodeOf(err) != stepwell.CodeNotFound {
		t.Errorf("without the file of the key: %v", err)
	}
}
