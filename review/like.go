// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/google/shlex"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/internal/kubeversion"
	"gatehouse.dev/internal/nearest"
)

// setFlagsLike sets flags as a kube-apiserver's command line does, which is in the file that --like
// names. Flags that the user has set stay. Flags that bear on no verdict are skipped. A flag that is
// not among known, the flags of kube-apiserver, is an error unless lax is set: it may be the
// misspelt name of a flag that does.
func setFlagsLike(flags *pflag.FlagSet, file string, known []string, lax bool) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("--like: %w", err)
	}
	args, err := commandLine(data)
	if err != nil {
		return fmt.Errorf("--like %s: %w", file, err)
	}
	for i := 0; i < len(args); i++ {
		if strings.HasPrefix(args[i], "$") {
			return fmt.Errorf("--like %s: %s is a variable, whose value isn't known: write the flags instead", file,
				args[i])
		}
		name, value, given := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		if !strings.HasPrefix(args[i], "--") {
			continue
		}
		name = strings.ReplaceAll(name, "_", "-")
		if !lax && !slices.Contains(known, name) {
			return fmt.Errorf("--like %s: kube-apiserver %s has no flag --%s%s correct it, or pass over it with "+
				"--allow-incomplete", file, kubeversion.Kubernetes(), name, cmp.Or(nearest.Meant("--"+name, withDashes(known)), ":"))
		}
		flag := flags.Lookup(name)
		if flag == nil || flag.Changed || !mayBearOnVerdict(flag.Name) {
			continue
		}
		if !given {
			value = flag.NoOptDefVal
			if value == "" && i+1 < len(args) {
				i++
				value = args[i]
			}
		}
		if strings.Contains(value, "$") {
			return fmt.Errorf("--like %s: --%s=%s: that is a variable, whose value isn't known: write the value instead",
				file, name, value)
		}
		if err := flag.Value.Set(value); err != nil {
			return fmt.Errorf("--like %s: --%s=%s: %w", file, name, value, err)
		}
		if err := missingFile(flag); err != nil {
			return fmt.Errorf("--like %s: --%s=%s: %w: say with --%s where it is on this machine", file, name, value,
				err, flag.Name)
		}
	}
	return nil
}

// withDashes returns the names of flags as they are typed.
func withDashes(names []string) []string {
	typed := make([]string, len(names))
	for i, name := range names {
		typed[i] = "--" + name
	}
	return typed
}

// missingFile returns an error if a flag names a file that isn't on this machine: it may be on the
// machine that the kube-apiserver runs on.
func missingFile(flag *pflag.Flag) error {
	if !strings.HasSuffix(flag.Name, "-file") {
		return nil
	}
	_, err := os.Stat(flag.Value.String())
	if of := (*fs.PathError)(nil); errors.As(err, &of) {
		return of.Err
	}
	return err
}

// mayBearOnVerdict reports whether a flag of kube-apiserver bears on verdicts.
func mayBearOnVerdict(name string) bool {
	return strings.Contains(name, "admission") || slices.Contains(chainFlags, name)
}

// program is the name of kube-apiserver's program.
const program = "kube-apiserver"

// commandLine returns the command line of a kube-apiserver, from the manifest of its pod or from
// text.
func commandLine(data []byte) ([]string, error) {
	var pod corev1.Pod
	if err := yaml.Unmarshal(data, &pod); err == nil && pod.Kind != "" {
		if pod.Kind != "Pod" {
			return nil, fmt.Errorf("it is a %s of %s, and not the manifest of a %s's pod", pod.Kind, pod.APIVersion,
				program)
		}
		for _, c := range pod.Spec.Containers {
			line := slices.Concat(c.Command, c.Args)
			if args, ok := argumentsOf(line); ok {
				return args, nil
			}
			if len(c.Command) == 0 && c.Name == program {
				return c.Args, nil // the image says what runs
			}
			for _, word := range line {
				if strings.Contains(word, program) && strings.ContainsAny(word, " \n") { // a shell runs it
					line, err := splitWords(word)
					if args, ok := argumentsOf(line); ok || err != nil {
						return args, err
					}
				}
			}
		}
		return nil, fmt.Errorf("pod %s has no container that runs %s", pod.Name, program)
	}
	line, err := splitWords(string(data))
	if err != nil {
		return nil, err
	}
	if args, ok := argumentsOf(line); ok {
		return args, nil
	}
	if len(line) > 0 && strings.HasPrefix(line[0], "--") {
		return line, nil // the flags alone
	}
	return nil, fmt.Errorf("neither the manifest of a %s's pod nor its command line", program)
}

// argumentsOf returns the arguments of kube-apiserver in a command line, or in a systemd unit. ok
// reports whether the line has the program.
func argumentsOf(line []string) (_ []string, ok bool) {
	for i, word := range line {
		if _, command, ok := strings.Cut(word, "="); ok && !strings.HasPrefix(word, "-") {
			word = command // ExecStart=kube-apiserver
		}
		if path.Base(word) == program {
			return line[i+1:], true
		}
	}
	return nil, false
}

// splitWords splits a command line as a shell or a systemd unit has it. It also accepts the form of
// /proc, in which nothing is quoted.
func splitWords(text string) ([]string, error) {
	if strings.Contains(text, "\x00") {
		return strings.Split(strings.TrimRight(text, "\x00"), "\x00"), nil
	}
	return shlex.Split(strings.ReplaceAll(text, "\\\n", " "))
}
