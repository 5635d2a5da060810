package review

import (
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

// takeAfter sets the flags that a kube-apiserver's command line sets, in the file that --like
// names, unless they are given. Flags that have nothing to do with a verdict are passed over. Those
// that are not among known, the flags of kube-apiserver, are an error, unless lax says otherwise: a
// misspelt one may be one that has.
func takeAfter(flags *pflag.FlagSet, file string, known []string, lax bool) error {
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
			return fmt.Errorf("--like %s: %s is a variable, and nobody knows of what value: write down the flags "+
				"instead", file, args[i])
		}
		name, value, given := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		if !strings.HasPrefix(args[i], "--") {
			continue
		}
		name = strings.ReplaceAll(name, "_", "-")
		if !lax && !slices.Contains(known, name) {
			return fmt.Errorf("--like %s: kube-apiserver %s has no flag --%s%s: correct it, or pass over it with "+
				"--allow-incomplete", file, kubeversion.Kubernetes(), name, nearest.Meant("--"+name, dashed(known)))
		}
		flag := flags.Lookup(name)
		if flag == nil || flag.Changed || !decides(flag.Name) {
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
			return fmt.Errorf("--like %s: --%s=%s: that is a variable, and nobody knows of what value: write the "+
				"value down instead", file, name, value)
		}
		if err := flag.Value.Set(value); err != nil {
			return fmt.Errorf("--like %s: --%s=%s: %w", file, name, value, err)
		}
		if err := missing(flag); err != nil {
			return fmt.Errorf("--like %s: --%s=%s: %w: say with --%s where it is on this machine", file, name, value,
				err, flag.Name)
		}
	}
	return nil
}

// dashed returns flags as they are typed.
func dashed(names []string) []string {
	typed := make([]string, len(names))
	for i, name := range names {
		typed[i] = "--" + name
	}
	return typed
}

// missing is the error where a flag names a file that isn't there, since it is on the machine that
// the kube-apiserver runs on.
func missing(flag *pflag.Flag) error {
	if !strings.HasSuffix(flag.Name, "-file") {
		return nil
	}
	_, err := os.Stat(flag.Value.String())
	if of := (*fs.PathError)(nil); errors.As(err, &of) {
		return of.Err
	}
	return err
}

// decides reports whether a flag of kube-apiserver's influences verdicts.
func decides(name string) bool {
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
			if args, ok := arguments(line); ok {
				return args, nil
			}
			if len(c.Command) == 0 && c.Name == program {
				return c.Args, nil // the image says what runs
			}
			for _, word := range line {
				if strings.Contains(word, program) && strings.ContainsAny(word, " \n") { // a shell runs it
					line, err := words(word)
					if args, ok := arguments(line); ok || err != nil {
						return args, err
					}
				}
			}
		}
		return nil, fmt.Errorf("pod %s has no container that runs %s", pod.Name, program)
	}
	line, err := words(string(data))
	if err != nil {
		return nil, err
	}
	if args, ok := arguments(line); ok {
		return args, nil
	}
	if len(line) > 0 && strings.HasPrefix(line[0], "--") {
		return line, nil // the flags alone
	}
	return nil, fmt.Errorf("neither the manifest of a %s's pod nor its command line", program)
}

// arguments returns the arguments of kube-apiserver in a command line, or in a line of a unit. ok
// reports whether the line has the program.
func arguments(line []string) (_ []string, ok bool) {
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

// words splits a command line as a shell or a systemd unit has it. It also accepts the form of
// /proc, in which nothing is quoted.
func words(text string) ([]string, error) {
	if strings.Contains(text, "\x00") {
		return strings.Split(strings.TrimRight(text, "\x00"), "\x00"), nil
	}
	return shlex.Split(strings.ReplaceAll(text, "\\\n", " "))
}
