package secret_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
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
