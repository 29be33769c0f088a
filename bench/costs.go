package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// costs are what a step of a workload has used, of PostgreSQL and of the processes on this machine.
type costs struct {
	Node        float64 `json:"node_us"`              // processor time of a node
	Workers     float64 `json:"workers_us,omitempty"` // of workers in other processes
	Database    float64 `json:"database_us"`          // of a server on this machine: its connections to the database, its writers
	WAL         float64 `json:"wal_bytes"`            // of the whole server
	Tables      float64 `json:"table_bytes"`          // negative where space was used again
	Statements  float64 `json:"statements"`           // 0 without pg_stat_statements
	Connections int64   `json:"connections"`
}

func (c *costs) text() string {
	if c == nil {
		return ""
	}
	text := fmt.Sprintf("\n  of a step: node %.1f µs, database %.1f µs, WAL %.0f bytes, tables %.0f bytes", c.Node, c.Database, c.WAL, c.Tables)
	if c.Workers > 0 {
		text += fmt.Sprintf(", workers %.1f µs", c.Workers)
	}
	if c.Statements > 0 {
		text += fmt.Sprintf(", %.3f statements", c.Statements)
	}
	return text + fmt.Sprintf("; %d connections", c.Connections)
}

// usage is what has been used up to a moment.
type usage struct {
	node, workers                        time.Duration
	processes                            map[int]time.Duration // of the database
	wal, tables, statements, connections int64
	asked                                bool
}

// usage asks the database and the system; of another database than PostgreSQL nothing is asked.
func (b *bench) usage(ctx context.Context) (u usage, err error) {
	u.node = cpuTime()
	if !b.shared() {
		return u, nil
	}
	for _, m := range b.workers {
		u.workers += processorTime(m.cmd.Process.Pid)
	}
	if b.member { // the process that started it asks the database
		u.asked = true
		return u, nil
	}
	conn, err := pgx.Connect(ctx, b.Store)
	if err != nil {
		return u, err
	}
	defer conn.Close(ctx)
	return u, u.ask(ctx, conn)
}

func (u *usage) ask(ctx context.Context, conn *pgx.Conn) error {
	u.asked = true
	var local bool
	err := conn.QueryRow(ctx, `SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint, pg_database_size(current_database()),
    (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()), coalesce(inet_server_addr() << '127.0.0.0/8', true)`).Scan(&u.wal, &u.tables, &u.connections, &local)
	if err != nil {
		return err
	}
	// Without the module's view there is no such count.
	_ = conn.QueryRow(ctx, `SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid WHERE d.datname = current_database()`).Scan(&u.statements)
	if !local {
		return nil
	}
	rows, err := conn.Query(ctx, `SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND (datname = current_database() OR datname IS NULL)`)
	if err != nil {
		return err
	}
	u.processes = map[int]time.Duration{}
	var pid int
	_, err = pgx.ForEachRow(rows, []any{&pid}, func() error {
		u.processes[pid] = processorTime(pid)
		return nil
	})
	return err
}

// since is the cost of each of some steps; nil where nothing was asked.
func (u *usage) since(before *usage, steps int) *costs {
	if !u.asked {
		return nil
	}
	var database time.Duration
	for pid, used := range u.processes { // what has ended meanwhile does not count
		database += used - before.processes[pid]
	}
	each := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(steps) }
	share := func(n int64) float64 { return float64(n) / float64(steps) }
	return &costs{Node: each(u.node - before.node), Workers: each(u.workers - before.workers), Database: each(database), WAL: share(u.wal - before.wal),
		Tables: share(u.tables - before.tables), Statements: share(u.statements - before.statements), Connections: u.connections}
}

// processorTime is what the threads of a process have used, 0 where the system has no /proc.
func processorTime(pid int) (sum time.Duration) {
	threads, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/schedstat") // the pattern is a good one
	for _, name := range threads {
		raw, _ := os.ReadFile(name) // a thread that has ended counts as nothing
		first, _, _ := strings.Cut(string(raw), " ")
		ns, _ := strconv.ParseInt(first, 10, 64)
		sum += time.Duration(ns)
	}
	return sum
}
