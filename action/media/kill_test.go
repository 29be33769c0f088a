package media

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/action"
)

const childEnv = "STEPWELL_MEDIA_KILL_TEST"

// fileHost keeps records and steps on disk, so that they outlive the process.
type fileHost struct {
	*host
	dir string
}

func (h *fileHost) path(kind, key string) string {
	return filepath.Join(h.dir, kind+"-"+hex.EncodeToString([]byte(key)))
}

func (h *fileHost) write(kind, key string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	tmp := h.path("tmp", fmt.Sprint(os.Getpid()))
	return errors.Join(os.WriteFile(tmp, raw, 0o644), os.Rename(tmp, h.path(kind, key)))
}

func (h *fileHost) Record(_ context.Context, key string, v json.RawMessage) error {
	fmt.Println("work")
	return h.write("record", key, v)
}

func (h *fileHost) Recall(_ context.Context, key string) (json.RawMessage, bool, error) {
	raw, err := os.ReadFile(h.path("record", key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	return raw, err == nil, err
}

func (h *fileHost) Spawn(_ context.Context, steps []action.NewStep) error {
	for _, s := range steps {
		if err := h.write("step", s.Name+":"+s.Key, s); err != nil {
			return err
		}
		fmt.Println("work")
	}
	return nil
}

// loud says when it does something, so that the parent can choose the moment.
type loud struct{ targetFile }

func (l loud) Write(p []byte) (int, error) { fmt.Println("work"); return l.targetFile.Write(p) }
func (l loud) Sync() error                 { fmt.Println("work"); return l.targetFile.Sync() }
func (l loud) Close() error                { fmt.Println("work"); return l.targetFile.Close() }

// TestKillChild is the process that TestKill kills; on its own it does nothing.
func TestKillChild(t *testing.T) {
	dir := os.Getenv(childEnv)
	if dir == "" {
		t.Skip("runs inside TestKill")
	}
	h := &fileHost{newHost(), filepath.Join(dir, "host")}
	call := copyCall(h.host, map[string]any{"source": filepath.Join(dir, "card"), "destination": filepath.Join(dir, "archive"), "template": "x/{original}"})
	call.Host = h
	c := newCopier()
	c.ops.create = func(root *os.Root, name string) (targetFile, error) {
		f, err := systemOps().create(root, name)
		return loud{f}, err
	}
	if _, err := c.Run(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	fmt.Println("finished")
}

// TestKill kills the copying process with SIGKILL at 20 random points and resumes (M4). At any time
// a file under its final name is whole; at the end all are there, with a step each and no leftovers.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	random := rand.New(rand.NewPCG(1, uint64(os.Getpid())))
	files, kills := 40, 20
	if testing.Short() {
		files, kills = 10, 5
	}
	for i := range files {
		data := make([]byte, 100_000+random.IntN(2<<20))
		for j := range data {
			data[j] = byte(random.Uint32())
		}
		writeFile(t, filepath.Join(dir, "card"), fmt.Sprintf("DCIM/%03dMEDIA/CLIP%04d.MP4", 100+i%3, i), data)
	}
	for _, sub := range []string{"host", "archive"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	card := snapshot(t, filepath.Join(dir, "card"))
	want := map[string]string{}
	for name, data := range content(t, filepath.Join(dir, "card")) {
		want["x/"+filepath.Base(name)] = data
	}
	killed, parts := 0, 0
	for killed < kills {
		if finished := killAfter(t, dir, 1+random.IntN(files)); finished { // about 7 lines per file
			// Everything is stored: begin anew, so that each kill meets a copy at work.
			for _, sub := range []string{"host", "archive"} {
				if err := errors.Join(os.RemoveAll(filepath.Join(dir, sub)), os.Mkdir(filepath.Join(dir, sub), 0o755)); err != nil {
					t.Fatal(err)
				}
			}
			continue
		}
		killed++
		for name, data := range content(t, filepath.Join(dir, "archive")) {
			if strings.HasSuffix(name, ".part") && !strings.Contains(name, "/") {
				parts++
				continue
			}
			if want[name] != data {
				t.Fatalf("kill %d: half a file is visible as %s", killed, name)
			}
		}
	}
	if t.Logf("%d of %d kills left a part file", parts, kills); parts == 0 {
		t.Error("no kill met a copy at work")
	}
	if !killAfter(t, dir, 1<<30) {
		t.Fatal("the last attempt did not finish")
	}
	got := content(t, filepath.Join(dir, "archive"))
	if len(got) != files {
		t.Errorf("%d files in the end, want %d: %v", len(got), files, names(got))
	}
	for name, data := range want {
		if got[name] != data {
			t.Errorf("%s differs from its source", name)
		}
	}
	if steps, _ := filepath.Glob(filepath.Join(dir, "host", "step-*")); len(steps) != files {
		t.Errorf("%d steps, want %d", len(steps), files)
	}
	if after := snapshot(t, filepath.Join(dir, "card")); fmt.Sprint(after) != fmt.Sprint(card) {
		t.Error("the source was touched")
	}
}

// killAfter runs the copy in a process of its own and kills it after so many lines of output.
func killAfter(t *testing.T, dir string, lines int) (finished bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKillChild$", "-test.v")
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	scanner := bufio.NewScanner(out)
	for scanner.Scan() {
		fmt.Fprintln(&all, scanner.Text())
		switch scanner.Text() {
		case "work":
			if lines--; lines == 0 {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		case "finished":
			finished = true
		}
	}
	if err := cmd.Wait(); err != nil && lines > 0 {
		t.Fatalf("the copy failed: %v\n%s\n%s", err, all.String(), stderr.String())
	}
	return finished
}
