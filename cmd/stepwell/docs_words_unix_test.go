//go:build unix

package main

import (
	"slices"
	"strings"
)

// shownCommand is a command of a block and the output beneath it.
type shownCommand struct {
	at     int // index of its first line in the block
	text   string
	output int      // index of the first line of its output
	wants  []string // the lines of its output
}

// commands are those of a block: lines after a prompt in console, every line in sh. A command goes on over lines for as
// long as its quotes, a backslash or a here-document say so.
func (b *block) commands() (all []shownCommand) {
	console := b.language == "console"
	for i := 0; i < len(b.lines); i++ {
		line, prompt := b.lines[i], true
		if console {
			line, prompt = strings.CutPrefix(line, "$ ")
		}
		switch {
		case !prompt && len(all) > 0:
			all[len(all)-1].wants = append(all[len(all)-1].wants, line)
		case !prompt || strings.TrimSpace(line) == "":
		default:
			c := shownCommand{at: i, text: line}
			for i+1 < len(b.lines) {
				if _, whole := splitCommands(c.text); whole {
					break
				}
				i++
				c.text += "\n" + b.lines[i]
			}
			c.output = i + 1
			all = append(all, c)
		}
	}
	return all
}

// splitCommands splits a line of a shell into its commands and those into words: assignments, redirections and comments
// are left out. whole is false for a line that goes on.
func splitCommands(text string) (commands [][]string, whole bool) {
	var words []string
	var word strings.Builder
	var quote rune
	has, redirect := false, false
	endWord := func() {
		switch w := word.String(); {
		case !has || redirect:
			redirect = redirect && !has
		case len(words) == 0 && (assignment(w) || slices.Contains([]string{"then", "do", "else", "!", "{", "time", "nohup", "exec"}, w)):
		default:
			words = append(words, w)
		}
		word.Reset()
		has = false
	}
	endCommand := func() {
		endWord()
		if len(words) > 0 {
			commands = append(commands, words)
		}
		words = nil
	}
	text, rest, here := strings.Cut(text, "\n")
	if at := strings.Index(text, "<<"); here || at >= 0 {
		if mark, ok := hereMark(text, at); ok {
			text = text[:at]
			if !strings.HasSuffix("\n"+rest, "\n"+mark) {
				return nil, false
			}
		} else if here {
			text += "\n" + rest
		}
	}
	runes := []rune(text)
	for i := 0; i < len(runes); i++ {
		r := runes[i]
		switch {
		case quote == '\'' && r != quote, quote == '"' && r != quote && r != '\\':
			word.WriteRune(r)
		case quote != 0 && r == quote:
			quote = 0
		case r == '\\':
			if i++; i == len(runes) {
				return nil, false
			}
			if runes[i] != '\n' {
				word.WriteRune(runes[i])
				has = true
			}
		case r == '\'' || r == '"':
			quote, has = r, true
		case r == '#' && !has:
			for i+1 < len(runes) && runes[i+1] != '\n' {
				i++
			}
		case r == '&' && i > 0 && runes[i-1] == '>': // 2>&1
			word.WriteRune(r)
			has = true
		case strings.ContainsRune("|&;\n()", r):
			endCommand()
			redirect = false
		case r == '>' || r == '<':
			if has && strings.Trim(word.String(), "0123456789") == "" {
				word.Reset()
				has = false
			}
			endWord()
			redirect = true
		case r == ' ' || r == '\t':
			if has {
				endWord()
				redirect = false
			}
		default:
			word.WriteRune(r)
			has = true
		}
	}
	endCommand()
	return commands, quote == 0
}

// hereMark is the word that ends a here-document, which begins at an index of the line.
func hereMark(line string, at int) (string, bool) {
	if at < 0 || strings.HasPrefix(line[at:], "<<<") {
		return "", false
	}
	fields := strings.Fields(strings.TrimPrefix(line[at+2:], "-"))
	if len(fields) == 0 {
		return "", false
	}
	return strings.Trim(fields[0], `'"`), true
}

// assignment reports whether a word sets a variable.
func assignment(w string) bool {
	name, _, ok := strings.Cut(w, "=")
	return ok && name != "" && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789") == ""
}
