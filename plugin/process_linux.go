package plugin

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

const measures = true

// attributes have the process end with this program.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// expose has a system without memory end the plugin before the server.
func expose(pid int) { _ = os.WriteFile(proc(pid, "oom_score_adj"), []byte("500"), 0) } //nolint:gosec // the file is there; without the right nothing is lost

func proc(pid int, name string) string { return "/proc/" + strconv.Itoa(pid) + "/" + name }

// maxFamily is how many processes of a plugin are counted.
const maxFamily = 1000

// memory is what the process and those that it has started have resident, in bytes; 0 when they have ended.
func (c *process) memory() (sum int64) {
	family := []int{c.pid()}
	for i := 0; i < len(family) && i < maxFamily; i++ {
		raw, _ := os.ReadFile(proc(family[i], "statm")) // one that has ended has nothing
		if f := strings.Fields(string(raw)); len(f) > 2 {
			resident, _ := strconv.ParseInt(f[1], 10, 64)
			shared, _ := strconv.ParseInt(f[2], 10, 64)
			sum += (resident - shared) * int64(os.Getpagesize())
		}
		threads, _ := os.ReadDir(proc(family[i], "task"))
		for _, t := range threads {
			raw, _ := os.ReadFile(proc(family[i], "task/"+t.Name()+"/children"))
			for _, f := range strings.Fields(string(raw)) {
				if pid, err := strconv.Atoi(f); err == nil {
					family = append(family, pid)
				}
			}
		}
	}
	return sum
}
