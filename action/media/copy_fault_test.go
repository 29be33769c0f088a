package media

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
)

// watched lets a test act on writes and on the end of a part file.
type watched struct {
	targetFile
	onWrite func(n int) error
	onClose func()
}

func (w *watched) Write(p []byte) (int, error) {
	if w.onWrite != nil {
		if err := w.onWrite(len(p)); err != nil {
			return 0, err
		}
	}
	return w.targetFile.Write(p)
}

func (w *watched) Close() error {
	err := w.targetFile.Close()
	if w.onClose != nil {
		w.onClose()
	}
	return err
}

// sourceWith lets a test act on reads of the source.
type sourceWith struct {
	sourceFile
	onRead func() error
}

func (s *sourceWith) Read(p []byte) (int, error) {
	if err := s.onRead(); err != nil {
		return 0, err
	}
	return s.sourceFile.Read(p)
}

// faulty is a card of three files, of which middle.mp4 is going to make trouble.
func faulty(t *testing.T) (src, dst string, params map[string]any) {
	src, dst = t.TempDir(), t.TempDir()
	for _, n := range []string{"a.mp4", "middle.mp4", "z.mp4"} {
		writeFile(t, src, n, bytes.Repeat([]byte(n), 1000))
	}
	return src, dst, map[string]any{"source": src, "destination": dst}
}

// onlyWhole fails when the destination has a file that is not as in the source, or a part.
func onlyWhole(t *testing.T, src, dst string) {
	t.Helper()
	want := content(t, src)
	for name, data := range content(t, dst) {
		if want[name] != data {
			t.Errorf("%s is in the destination with other content, or is a leftover", name)
		}
	}
}

// TestFlippedByte damages a copy between writing and verifying, some of the times (M5).
func TestFlippedByte(t *testing.T) {
	for _, times := range []int{1, maxTries} {
		src, dst, params := faulty(t)
		c, flips := newCopier(), 0
		c.ops.create = func(root *os.Root, name string) (targetFile, error) {
			f, err := systemOps().create(root, name)
			return &watched{targetFile: f, onClose: func() {
				full := filepath.Join(root.Name(), name)
				if data, err := os.ReadFile(full); err == nil && bytes.Contains(data, []byte("middle")) && flips < times {
					flips++
					data[len(data)/2] ^= 1
					writeFile(t, root.Name(), name, data)
				}
			}}, err
		}
		res, err := runCopy(t, c, newHost(), params)
		if err != nil || flips != times {
			t.Fatal(err, flips)
		}
		onlyWhole(t, src, dst)
		if times == 1 && (res.Copied != 3 || res.Failed != 0) {
			t.Errorf("one flip is not put right: %+v", res)
		}
		if times == maxTries && (res.Copied != 2 || res.Failed != 1 || !strings.Contains(res.Failures[0].Error, "differs")) {
			t.Errorf("a bad disk is not reported: %+v", res.Failures)
		}
	}
}

// TestVerifyOff shows that only verifying finds the flip: the test above tests something.
func TestVerifyOff(t *testing.T) {
	_, dst, params := faulty(t)
	params["verify"] = false
	c := newCopier()
	c.ops.create = func(root *os.Root, name string) (targetFile, error) {
		f, err := systemOps().create(root, name)
		return &watched{targetFile: f, onClose: func() {
			full := filepath.Join(root.Name(), name)
			data, _ := os.ReadFile(full)
			data[0] ^= 1
			writeFile(t, root.Name(), name, data)
		}}, err
	}
	if res, err := runCopy(t, c, newHost(), params); err != nil || res.Copied != 3 || content(t, dst)["a.mp4"][0] != 'a'^1 {
		t.Errorf("%+v %v", res, err)
	}
}

// TestSourceChanges changes a file while it is read, once and for ever (M5).
func TestSourceChanges(t *testing.T) {
	for _, times := range []int{1, 1 << 30} {
		src, dst, params := faulty(t)
		c, changes := newCopier(), 0
		c.ops.open = func(root *os.Root, name string) (sourceFile, error) {
			f, err := root.Open(name)
			if err != nil || name != "middle.mp4" {
				return f, err
			}
			return &sourceWith{f, func() error {
				if changes < times {
					changes++
					w, err := os.OpenFile(filepath.Join(src, name), os.O_APPEND|os.O_WRONLY, 0)
					if err != nil {
						return err
					}
					_, err = w.Write([]byte("more"))
					return errors.Join(err, w.Close())
				}
				return nil
			}}, nil
		}
		h := newHost()
		h.sourceChanges = true
		res, err := runCopy(t, c, h, params)
		if err != nil {
			t.Fatal(err)
		}
		onlyWhole(t, src, dst)
		if times == 1 && res.Copied != 3 {
			t.Errorf("one change is not put right: %+v", res)
		}
		if times > 1 && (res.Copied != 2 || res.Failed != 1 || !strings.Contains(res.Failures[0].Error, "changed while it was copied") || res.Failures[0].Hint == "") {
			t.Errorf("%+v", res.Failures)
		}
	}
}

// TestSourceReplaced puts another file of the same size and time under the name.
func TestSourceReplaced(t *testing.T) {
	src, dst, params := faulty(t)
	c, once := newCopier(), false
	c.ops.open = func(root *os.Root, name string) (sourceFile, error) {
		f, err := root.Open(name)
		if name == "middle.mp4" && !once {
			once = true
			info, _ := f.Stat()
			other := writeFile(t, src, ".new", bytes.Repeat([]byte("MIDDLE.mp4"), 1000))
			if err := errors.Join(os.Chtimes(other, info.ModTime(), info.ModTime()), os.Rename(other, filepath.Join(src, name))); err != nil {
				t.Fatal(err)
			}
		}
		return f, err
	}
	h := newHost()
	h.sourceChanges = true
	if res, err := runCopy(t, c, h, params); err != nil || res.Copied != 3 {
		t.Errorf("%+v %v", res, err)
	}
	onlyWhole(t, src, dst)
}

// TestDestinationFull runs out of space in the middle, then has room again (M5).
func TestDestinationFull(t *testing.T) {
	src, dst, params := faulty(t)
	c, written := newCopier(), 0
	c.ops.create = func(root *os.Root, name string) (targetFile, error) {
		f, err := systemOps().create(root, name)
		return &watched{targetFile: f, onWrite: func(n int) error {
			if written += n; written > 8000 {
				return &fs.PathError{Op: "write", Path: name, Err: syscall.ENOSPC}
			}
			return nil
		}}, err
	}
	h := newHost()
	_, err := runCopy(t, c, h, params)
	if stepwell.CodeOf(err) != stepwell.CodeUnavailable || action.IsFail(err) || !strings.Contains(err.Error(), "the destination is full") || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("%v", err)
	}
	onlyWhole(t, src, dst)
	if got := names(content(t, dst)); len(got) != 1 {
		t.Errorf("stored before it was full: %v", got)
	}
	res, err := runCopy(t, newCopier(), h, params)
	if err != nil || res.Copied != 3 || len(h.order) != 3 {
		t.Errorf("after making room: %+v %v", res, err)
	}
	onlyWhole(t, src, dst)

	// Known beforehand: nothing is begun.
	c = newCopier()
	c.ops.free = func(string) (int64, bool) { return 10, true }
	c.ops.create = func(*os.Root, string) (targetFile, error) { t.Error("begun"); return nil, errDevice }
	params["destination"] = t.TempDir()
	if _, err := runCopy(t, c, newHost(), params); stepwell.CodeOf(err) != stepwell.CodeUnavailable || !strings.Contains(err.Error(), "10 bytes free") {
		t.Errorf("%v", err)
	}
}

// TestReadError is a bad spot on the card: that file fails, the others are copied (M5).
func TestReadError(t *testing.T) {
	src, dst, params := faulty(t)
	c, tries := newCopier(), 0
	c.ops.open = func(root *os.Root, name string) (sourceFile, error) {
		f, err := root.Open(name)
		if name != "middle.mp4" {
			return f, err
		}
		tries++
		return &sourceWith{f, func() error { return &fs.PathError{Op: "read", Path: name, Err: syscall.EIO} }}, err
	}
	res, err := runCopy(t, c, newHost(), params)
	if err != nil || res.Copied != 2 || res.Failed != 1 || tries != maxTries || res.Failures[0].Source != "middle.mp4" || !strings.Contains(res.Failures[0].Error, "source: read middle.mp4: input/output error") {
		t.Errorf("%+v %v, %d tries", res, err, tries)
	}
	onlyWhole(t, src, dst)
	params["on_error"], params["destination"] = "fail", t.TempDir()
	if _, err := runCopy(t, c, newHost(), params); !errors.Is(err, syscall.EIO) || action.IsFail(err) {
		t.Errorf("on_error fail: %v", err)
	}
}

// TestAllFail: an ingest of nothing is no success.
func TestAllFail(t *testing.T) {
	_, _, params := faulty(t)
	c := newCopier()
	c.ops.open = func(*os.Root, string) (sourceFile, error) {
		return nil, &fs.PathError{Op: "open", Path: "x", Err: syscall.EIO}
	}
	if _, err := runCopy(t, c, newHost(), params); err == nil || !strings.Contains(err.Error(), "none of 3 files") {
		t.Errorf("%v", err)
	}
}

// TestCardRemoved takes the card out in the middle and puts it back for the next attempt.
func TestCardRemoved(t *testing.T) {
	src, dst, params := faulty(t)
	away := src + "-away"
	for name, take := range map[string]func() error{
		"device gone": func() error { return syscall.ENODEV },
		"empty mount point": func() error {
			if err := os.Rename(src, away); err != nil {
				return err
			}
			return errors.Join(os.Mkdir(src, 0o755), syscall.EIO)
		},
		"directory gone": func() error { return errors.Join(os.Rename(src, away), syscall.EIO) },
	} {
		if err := os.RemoveAll(dst); err != nil {
			t.Fatal(err)
		}
		c, h := newCopier(), newHost()
		c.ops.open = func(root *os.Root, name string) (sourceFile, error) {
			f, err := root.Open(name)
			if name != "middle.mp4" {
				return f, err
			}
			return &sourceWith{f, take}, err
		}
		_, err := c.Run(t.Context(), copyCall(h, params))
		var retry *action.RetryError
		if !errors.As(err, &retry) || stepwell.CodeOf(err) != stepwell.CodeUnavailable || !strings.Contains(err.Error(), "waiting for medium") {
			t.Errorf("%s: %v", name, err)
		}
		if name != "device gone" {
			if err := os.Remove(src); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			if err := os.Rename(away, src); err != nil {
				t.Fatal(err)
			}
		}
		onlyWhole(t, src, dst)
		if res, err := runCopy(t, newCopier(), h, params); err != nil || res.Copied != 3 || len(h.order) != 3 {
			t.Errorf("%s, put back: %+v %v", name, res, err)
		}
	}
	if _, err := newCopier().Run(t.Context(), copyCall(newHost(), map[string]any{"source": away, "destination": dst})); !strings.Contains(fmt.Sprint(err), "waiting for medium") {
		t.Errorf("absent from the start: %v", err)
	}
}

// TestNameTakenMeanwhile: somebody else's file appears under the name while the part is written.
func TestNameTakenMeanwhile(t *testing.T) {
	src, dst, params := faulty(t)
	c := newCopier()
	c.ops.create = func(root *os.Root, name string) (targetFile, error) {
		f, err := systemOps().create(root, name)
		return &watched{targetFile: f, onClose: func() {
			if _, err := os.Stat(filepath.Join(dst, "a.mp4")); err != nil {
				writeFile(t, dst, "a.mp4", []byte("theirs"))
			}
		}}, err
	}
	res, err := runCopy(t, c, newHost(), params)
	if err != nil || res.Copied != 3 {
		t.Errorf("%+v %v", res, err)
	}
	got := content(t, dst)
	if got["a.mp4"] != "theirs" || got["a_2.mp4"] != content(t, src)["a.mp4"] || len(got) != 4 {
		t.Errorf("%v", names(got))
	}
}

// TestLostRecord ends the worker between the record and the name, and once loses the stored time:
// the file still counts as copied by this step, so that its metadata step is started.
func TestLostRecord(t *testing.T) {
	src, dst, params := faulty(t)
	h := newHost()
	h.onSpawn = func(s action.NewStep) error { return errDevice }
	if _, err := runCopy(t, newCopier(), h, params); !errors.Is(err, errDevice) {
		t.Fatal(err)
	}
	h.onSpawn = nil
	if err := os.Chtimes(filepath.Join(dst, "a.mp4"), time.Unix(1, 0), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	res, err := runCopy(t, newCopier(), h, params)
	if err != nil || res.Copied != 3 || res.Existing != 0 || len(h.order) != 3 {
		t.Errorf("%+v %v %v", res, err, h.order)
	}
	h.onRecord = func(string) error { return errDevice }
	params["destination"] = t.TempDir()
	if _, err := runCopy(t, newCopier(), h, params); !errors.Is(err, errDevice) {
		t.Errorf("a record that fails does not end the attempt: %v", err)
	}
	onlyWhole(t, src, params["destination"].(string))
}

// TestStaleParts: leftovers of this step and old ones go, somebody's fresh work stays.
func TestStaleParts(t *testing.T) {
	_, dst, params := faulty(t)
	g := &ingest{id: "ffffffffffff"}
	old := writeFile(t, dst, partPrefix(g.id)+"1.part", []byte("old"))
	fresh := writeFile(t, dst, partPrefix(g.id)+"2.part", []byte("fresh"))
	past := time.Now().Add(-48 * time.Hour)
	if err := os.Chtimes(old, past, past); err != nil {
		t.Fatal(err)
	}
	if _, err := runCopy(t, newCopier(), newHost(), params); err != nil {
		t.Fatal(err)
	}
	_, oldErr := os.Stat(old)
	_, freshErr := os.Stat(fresh)
	if !os.IsNotExist(oldErr) || freshErr != nil {
		t.Errorf("old: %v, fresh: %v", oldErr, freshErr)
	}
}

// TestNoHardLinks is a destination like exFAT: files still get their names, and replace nothing.
func TestNoHardLinks(t *testing.T) {
	for _, errno := range []error{syscall.EPERM, syscall.ENOTSUP} {
		src, dst, params := faulty(t)
		writeFile(t, dst, "a.mp4", []byte("theirs"))
		c, h := newCopier(), newHost()
		c.ops.link = func(_ *os.Root, from, to string) error {
			return &os.LinkError{Op: "linkat", Old: from, New: to, Err: errno}
		}
		res, err := runCopy(t, c, h, params)
		if err != nil || res.Copied != 3 {
			t.Fatalf("%+v %v", res, err)
		}
		want := content(t, src)
		want["a_2.mp4"], want["a.mp4"] = want["a.mp4"], "theirs"
		if diff := cmp.Diff(want, content(t, dst)); diff != "" {
			t.Error(diff)
		}
	}
	if noHardLinks(&os.LinkError{Op: "linkat", Err: syscall.EEXIST}) || noHardLinks(nil) || noHardLinks(io.EOF) {
		t.Error("other errors are taken for missing hard links")
	}
}

// TestSecondAttemptAfterNewCard: the card's file is another one by the next attempt.
func TestSecondAttemptAfterNewCard(t *testing.T) {
	src, dst, params := faulty(t)
	params["spawn"] = false
	h := newHost()
	if _, err := runCopy(t, newCopier(), h, params); err != nil {
		t.Fatal(err)
	}
	writeFile(t, src, "a.mp4", []byte("another recording"))
	res, err := runCopy(t, newCopier(), h, params)
	if err != nil || res.Copied != 3 || content(t, dst)["a_2.mp4"] != "another recording" {
		t.Errorf("%+v %v", res, err)
	}
	if diff := cmp.Diff([]string{"a.mp4", "a_2.mp4", "middle.mp4", "z.mp4"}, names(content(t, dst))); diff != "" {
		t.Error(diff)
	}
}

// TestReplacedAttempt has a former attempt, which nobody listens to any more, store a file while the next one is about to: the step of that file is
// spawned all the same.
func TestReplacedAttempt(t *testing.T) {
	for _, name := range []string{"a.mp4", "middle.mp4", "z.mp4"} {
		_, dst, params := faulty(t)
		params["spawn"] = map[string]any{"action": "util.exec", "name": "probe"}
		h := newHost()
		replaced := newHost() // the same records, none of its steps is taken
		replaced.records = h.records
		replaced.onSpawn = func(action.NewStep) error {
			return stepwell.Errorf(stepwell.CodeConflict, "", "the attempt has been replaced")
		}
		params["files"] = []any{name}
		once := false
		c := newCopier()
		c.ops.create = func(root *os.Root, part string) (targetFile, error) {
			if !once {
				once = true
				if _, err := runCopy(t, newCopier(), replaced, params); stepwell.CodeOf(err) != stepwell.CodeConflict {
					t.Errorf("the former attempt: %v", err)
				}
			}
			return systemOps().create(root, part)
		}
		res, err := runCopy(t, c, h, params)
		if err != nil || res.Copied != 1 || res.Spawned != 1 || len(h.steps) != 1 {
			t.Errorf("%+v, %d steps, error %v", res, len(h.steps), err)
		}
		if files := content(t, dst); files[name] == "" {
			t.Errorf("%v", files)
		}
	}
}

// TestTwoAttempts has another attempt of the same step do all its work while the first one copies a file, of which it takes the part for a leftover:
// both store every file and spawn its step, which is there once.
func TestTwoAttempts(t *testing.T) {
	for when, verify := range map[string]bool{"before verifying": true, "before publishing": false, "behind the name": false} {
		src, dst, params := faulty(t)
		params["verify"], params["spawn"] = verify, map[string]any{"action": "util.exec", "name": "probe"}
		h, once := newHost(), false
		other := func() {
			if once {
				return
			}
			once = true
			if res, err := runCopy(t, newCopier(), h, params); err != nil || res.Failed != 0 || res.Spawned != 3 {
				t.Errorf("%s, the other attempt: %+v, error %v", when, res, err)
			}
		}
		c := newCopier()
		c.ops.create = func(root *os.Root, name string) (targetFile, error) {
			f, err := systemOps().create(root, name)
			return &watched{targetFile: f, onClose: func() {
				if when != "behind the name" {
					other()
				}
			}}, err
		}
		c.ops.link = func(root *os.Root, from, to string) error {
			err := systemOps().link(root, from, to)
			if when == "behind the name" {
				other()
			}
			return err
		}
		res, err := runCopy(t, c, h, params)
		if err != nil || res.Failed != 0 || res.Copied != 3 || res.Spawned != 3 || len(h.steps) != 3 {
			t.Errorf("%s: %+v, %d steps, error %v", when, res, len(h.steps), err)
		}
		onlyWhole(t, src, dst)
	}
}
