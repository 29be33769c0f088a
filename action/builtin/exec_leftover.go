package builtin

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"

	"github.com/stepwell/stepwell/action"
)

// holder says, in the folder of a command under way, which process runs it and which group it is.
// Processes are told from later ones with the same number by the time at which they started.
type holder struct {
	Owner      int    `json:"owner"`
	OwnerStart string `json:"owner_start"`
	Group      int    `json:"group"`
	GroupStart string `json:"group_start"`
}

const holderFile = "holder"

// makeScratch makes the folder of one call. It has the step's own name, so that the process that takes
// the step up after a crash finds the command that its predecessor has left running, and ends it: a
// killed Stepwell cannot. A folder in use by a living process is left alone, and the call is then not the only one.
func makeScratch(call *action.Call) (dir string, alone bool, err error) {
	sum := sha256.Sum256([]byte(call.IdempotencyKey()))
	dir = filepath.Join(os.TempDir(), fmt.Sprintf("stepwell-exec-%d-%x", os.Getuid(), sum[:12]))
	for range 2 {
		err = os.Mkdir(dir, 0o700)
		if err == nil || !errors.Is(err, fs.ErrExist) {
			return dir, true, err
		}
		if !takeOver(dir, call.Host) {
			break
		}
	}
	dir, err = os.MkdirTemp("", "stepwell-exec-")
	return dir, false, err
}

// takeOver kills processes of a folder whose owner is dead, and removes the folder. Unless the owner is certainly dead
// it does nothing.
func takeOver(dir string, host action.Host) bool {
	raw, err := os.ReadFile(filepath.Join(dir, holderFile))
	if err != nil || !owned(dir) {
		return false
	}
	var h holder
	if json.Unmarshal(raw, &h) != nil || h.OwnerStart == "" || startOf(h.Owner) == h.OwnerStart {
		return false
	}
	if h.Group > 1 && h.GroupStart != "" && startOf(h.Group) == h.GroupStart {
		host.Log(slog.LevelWarn, fmt.Sprintf("ended the command that a former process has left running (process group %d)", h.Group))
		killGroup(h.Group)
	}
	return os.RemoveAll(dir) == nil
}

// hold notes the process group of the command.
func hold(dir string, group int) error {
	own := os.Getpid()
	raw, err := json.Marshal(holder{Owner: own, OwnerStart: startOf(own), Group: group, GroupStart: startOf(group)})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, holderFile), raw, 0o600)
}

// startOf is when a process started, in the kernel's own count; "" where that cannot be told.
func startOf(pid int) string {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	at := bytes.LastIndexByte(stat, ')') // the name before it may hold anything
	fields := bytes.Fields(stat[at+1:])
	if len(fields) < 20 {
		return ""
	}
	return string(fields[19])
}
