package redistest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// Do runs a command on a connection of its own, as a foreign program would: in the database in front of it ("1/HGET"), else in 0.
// Lists come one element a line.
func Do(address string, command ...string) (string, error) {
	conn, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return "", err
	}
	commands := [][]string{command} // a Sentinel has no databases to select
	if db, name, ok := strings.Cut(command[0], "/"); ok {
		commands = [][]string{{"SELECT", db}, append([]string{name}, command[1:]...)}
	}
	from := bufio.NewReader(conn)
	out := ""
	for _, c := range commands {
		if _, err := io.WriteString(conn, encode(c)); err != nil {
			return "", err
		}
		if out, err = reply(from); err != nil {
			return "", fmt.Errorf("%v: %w", c, err)
		}
	}
	return out, nil
}

func encode(command []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(command))
	for _, x := range command {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(x), x)
	}
	return b.String()
}

func reply(from *bufio.Reader) (string, error) {
	line, err := from.ReadString('\n')
	if err != nil {
		return "", err
	}
	kind, rest := line[0], strings.TrimRight(line[1:], "\r\n")
	n, _ := strconv.Atoi(rest) // only where it is a number
	switch kind {
	case '-':
		return "", fmt.Errorf("redis: %s", rest)
	case '$':
		if n < 0 {
			return "", nil
		}
		raw := make([]byte, n+2)
		_, err := io.ReadFull(from, raw)
		return string(raw[:n]), err
	case '*':
		list := make([]string, max(n, 0))
		for i := range list {
			if list[i], err = reply(from); err != nil {
				return "", err
			}
		}
		return strings.Join(list, "\n"), nil
	}
	return rest, nil
}
