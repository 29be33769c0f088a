package sqlite

import (
	"os/exec"
	"path/filepath"
	"testing"
)

func TestX(t *testing.T) {
	for _, ex := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "store.db")
		s, _ := Open(t.Context(), Options{Path: path, Exclusive: ex})
		out, _ := exec.Command("ls", "-la", filepath.Dir(path)).CombinedOutput()
		t.Log(string(out))
		begin(t, s, 1, `{"steps":[]}`)
		t.Log(s.Close())
		out, _ = exec.Command("ls", "-la", filepath.Dir(path)).CombinedOutput()
		t.Log(string(out))
	}
}
