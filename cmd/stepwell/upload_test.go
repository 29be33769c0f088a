package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/api/client"
	"github.com/stepwell/stepwell/tooltest"
)

// noise writes a file that does not repeat and gives its hash.
func noise(t *testing.T, path string, size int64) string {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.New()
	if _, err := io.CopyN(io.MultiWriter(f, sum), rand.NewChaCha8([32]byte{7}), size); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// lesson begins a life of the server and makes the lesson l.
func (r *crashRig) lesson() {
	r.t.Helper()
	r.start()
	_, err := r.client.Projects().Create(r.t.Context(), api.NewProject{ID: "p"})
	if err == nil {
		_, err = r.client.Lessons().Create(r.t.Context(), api.NewLesson{Project: "p", ID: "l"})
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// peak is the most memory that the server's life has had, in bytes; 0 where that is not known.
func (r *crashRig) peak() (bytes int64) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", r.process.Process.Pid))
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "VmHWM:"); ok {
			n, _ := strconv.ParseInt(strings.Fields(text)[0], 10, 64)
			return n << 10
		}
	}
	return 0
}

// TestUploadOutlivesKilledServers: a large upload whose server is killed twice goes on where it was, and what the lesson has is
// the file, in less than 100 MB of memory (of which the program itself takes about 60).
func TestUploadOutlivesKilledServers(t *testing.T) {
	t.Parallel()
	size, most := int64(96<<20), int64(100_000_000)
	if os.Getenv("STEPWELL_TEST_LONG") == "1" {
		size = 2 << 30
	}
	r := newCrashRig(t)
	r.lesson()
	path := filepath.Join(t.TempDir(), "lesson.mp4")
	sum := noise(t, path, size)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var sent atomic.Int64
	type result struct {
		lesson *api.Lesson
		err    error
	}
	ended := make(chan result, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		one, err := r.client.Upload(ctx, "l", &client.File{Name: "lesson.mp4", Bytes: size, Content: f}, sent.Store)
		ended <- result{one, err}
	}()
	peak := int64(0)
	for n := range int64(2) {
		r.until("a part of the file", func() bool { return sent.Load() > (n+1)*size/4 })
		peak = max(peak, r.peak())
		r.kill()
		r.start()
	}
	done := <-ended
	if done.err != nil {
		t.Fatal(done.err)
	}
	if m := done.lesson.Media; m.SHA256 != sum || m.Bytes != size || m.Type != "video/mp4" {
		t.Errorf("the media are %+v", m)
	}
	body, err := r.client.Media(ctx, "l")
	if err != nil {
		t.Fatal(err)
	}
	got := sha256.New()
	n, err := io.Copy(got, body)
	if err = errorsOf(err, body.Close()); err != nil || n != size || hex.EncodeToString(got.Sum(nil)) != sum {
		t.Errorf("%d bytes come back: %v", n, err)
	}
	if peak = max(peak, r.peak()); !raceEnabled && peak > most {
		t.Errorf("the server has had %d MB", peak/1_000_000)
	}
	t.Logf("%d MB of memory at most", peak/1_000_000)
}

func errorsOf(list ...error) error {
	for _, err := range list {
		if err != nil {
			return err
		}
	}
	return nil
}

// tusClient is an upload by npm's tus-js-client, which is told to stop in the middle and goes on with a new client.
const tusClient = `
import * as fs from 'node:fs'
import { createRequire } from 'node:module'
const tus = createRequire(process.env.PACKAGES + '/')('tus-js-client')
const path = process.env.FILE, size = fs.statSync(path).size
const upload = (more) => new Promise((done, failed) => {
  const u = new tus.Upload(fs.createReadStream(path), { endpoint: process.env.ENDPOINT, chunkSize: 3 << 20, uploadSize: size, retryDelays: [0, 200, 500],
    metadata: { filename: 'Übung.mp3', filetype: 'audio/mpeg' }, onError: failed, onSuccess: () => done(u), ...more(done, () => u) })
  u.start()
})
const first = await upload((done, u) => ({ onChunkComplete: (_, sent) => { if (sent > size / 3) u().abort().then(() => done(u())) } }))
const rest = await upload(() => ({ uploadUrl: first.url }))
const gone = await upload((done, u) => ({ uploadDataDuringCreation: true, onChunkComplete: (_, sent) => { if (sent > size / 3) u().abort(true).then(() => done(u())) } }))
console.log(rest.url === first.url, (await fetch(gone.url, { method: 'HEAD', headers: { 'Tus-Resumable': '1.0.0' } })).status)
`

// TestUploadByTusJSClient: npm's tus-js-client creates, interrupts, resumes and terminates uploads.
func TestUploadByTusJSClient(t *testing.T) {
	packages := tooltest.Packages(t, "uploads are not judged by tus-js-client", "tus-js-client@4.3.1")
	r := newCrashRig(t)
	r.lesson()
	dir := t.TempDir()
	sum := noise(t, filepath.Join(dir, "file"), 20<<20+5)
	if err := os.WriteFile(filepath.Join(dir, "judge.mjs"), []byte(tusClient), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), tooltest.Program(t, "uploads are not judged by tus-js-client", "node"), filepath.Join(dir, "judge.mjs"))
	cmd.Env = append(os.Environ(), "PACKAGES="+packages, "FILE="+filepath.Join(dir, "file"), "ENDPOINT=http://"+r.address+"/api/v1/lessons/l/media")
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("true 404")) {
		t.Fatalf("%v\n%s", err, out)
	}
	one, _, err := r.client.Lessons().Get(t.Context(), "l")
	if err != nil || one.Media == nil || one.Media.SHA256 != sum || one.Media.Name != "Übung.mp3" || one.Media.Type != "audio/mpeg" {
		t.Errorf("%+v %v", one.Media, err)
	}
}
