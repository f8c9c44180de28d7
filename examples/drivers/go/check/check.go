// Package check is what the Go programs share: a check panics with what went wrong, Run turns that into its line.
package check

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// URL is where the programs connect to.
var URL = os.Getenv("PGSLUICE_URL")

// One check and its line.
type One struct {
	Name string
	Run  func()
}

// Must panics with an error.
func Must(err error) {
	if err != nil {
		panic(err)
	}
}

// Got is a value that came without an error.
func Got[T any](value T, err error) T {
	Must(err)
	return value
}

// With is the URL with more options.
func With(options map[string]string) string {
	u := Got(url.Parse(URL))
	query := u.Query()
	for name, value := range options {
		query.Set(name, value)
	}
	u.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20")
	return u.String()
}

// Equal compares what two values look like.
func Equal(got, want any) {
	if fmt.Sprint(got) != fmt.Sprint(want) {
		panic(fmt.Sprintf("expected %v, got %v", want, got))
	}
}

// Fails wants an error with one of these SQLSTATEs.
func Fails(err error, sqlstates ...string) {
	var pg interface{ SQLState() string }
	if errors.As(err, &pg) {
		for _, sqlstate := range sqlstates {
			if pg.SQLState() == sqlstate {
				return
			}
		}
	}
	panic(fmt.Sprintf("expected SQLSTATE %v, got %v", sqlstates, err))
}

// Within panics if the work took longer.
func Within(limit time.Duration, work func()) {
	started := time.Now()
	work()
	if took := time.Since(started); took > limit {
		panic(fmt.Sprint("took ", took))
	}
}

// Together runs n clients at once.
func Together(n int, client func(id int)) {
	var all sync.WaitGroup
	wrong := make([]any, n)
	for id := range n {
		all.Go(func() {
			defer func() { wrong[id] = recover() }()
			client(id)
		})
	}
	all.Wait()
	for _, w := range wrong {
		if w != nil {
			panic(w)
		}
	}
}

func (k One) passes() (ok bool) {
	defer func() {
		if wrong := recover(); wrong != nil {
			fmt.Printf("FAIL %s: %s%s\n", k.Name, place(), strings.ReplaceAll(fmt.Sprint(wrong), "\n", " | "))
		}
	}()
	k.Run()
	fmt.Println("ok   " + k.Name)
	return true
}

// Where in the program it was.
func place() string {
	for _, line := range strings.Split(string(debug.Stack()), "\n") {
		if at := strings.Index(line, "/examples/drivers/go/"); at >= 0 && !strings.Contains(line, "/check/") {
			return strings.SplitN(line[at+len("/examples/drivers/go/"):], " ", 2)[0] + " "
		}
	}
	return ""
}

// Run runs all and exits with 1 if any failed.
func Run(checks []One, last func()) {
	code := 0
	for _, k := range checks {
		if !k.passes() {
			code = 1
		}
	}
	last()
	os.Exit(code)
}
