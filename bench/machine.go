package bench

import (
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"
)

// fsyncTime is the median time that the disk under dir takes to make 4 KiB durable, in ms.
func fsyncTime(dir string) (float64, error) {
	f, err := os.CreateTemp(dir, "fsync-")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	block := make([]byte, 4096)
	times := make([]time.Duration, 200)
	for i := range times {
		at := time.Now()
		if _, err := f.WriteAt(block, 0); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		times[i] = time.Since(at)
	}
	slices.Sort(times)
	return ms(times[len(times)/2]), nil
}

// resetPeak frees the memory of earlier runs and resets the kernel's record of the process's peak memory, where
// possible, so that each run has its own.
func resetPeak() {
	debug.FreeOSMemory()
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // without it the peak is the process's
}

// peakMB is the process's peak resident memory in MB.
func peakMB() float64 {
	if mb := peakOf("self"); mb > 0 {
		return mb
	}
	return peakUsage()
}

// peakOf is the peak resident memory of a process in MB, 0 where the system has no /proc.
func peakOf(pid string) float64 {
	status, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, _ := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 64)
			return kb / 1024
		}
	}
	return 0
}
