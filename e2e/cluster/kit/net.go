package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

func dns(args []string) error {
	flags := flag.NewFlagSet("dns", flag.ContinueOnError)
	server := flags.String("server", "", "address of the server; default is the system's")
	kind := flags.String("type", "A", "A or AAAA")
	within := flags.Duration("within", 5*time.Second, "how long it is tried again")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("one name is wanted")
	}
	network := map[string]string{"A": "ip4", "AAAA": "ip6"}[*kind]
	if network == "" {
		return fmt.Errorf("type %q is not known", *kind)
	}
	resolver := &net.Resolver{PreferGo: true}
	if *server != "" {
		resolver.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, *server)
		}
	}
	addresses, err := lookUp(resolver, network, flags.Arg(0), *within)
	if err != nil {
		return err
	}
	for _, address := range addresses {
		fmt.Println(address)
	}
	return nil
}

// lookUp tries again until the time is up: a resolver may come up after the one
// who asks.
func lookUp(resolver *net.Resolver, network, name string, within time.Duration) ([]net.IP, error) {
	until := time.Now().Add(within)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		addresses, err := resolver.LookupIP(ctx, network, name)
		cancel()
		if err == nil || time.Now().After(until) {
			return addresses, err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func serve(args []string) error {
	if len(args) != 2 {
		return errors.New("a port and a text are wanted")
	}
	listener, err := net.Listen("tcp", ":"+args[0])
	if err != nil {
		return err
	}
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		// A peer that does not read must not hold up the next one.
		go func() {
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
			_, _ = io.WriteString(conn, args[1]+"\n")
		}()
	}
}

func dial(args []string) error {
	flags := flag.NewFlagSet("dial", flag.ContinueOnError)
	within := flags.Duration("within", 3*time.Second, "deadline of the whole exchange")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("one address is wanted")
	}
	conn, err := net.DialTimeout("tcp", flags.Arg(0), *within)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(*within))
	answer, err := io.ReadAll(io.LimitReader(conn, 4096))
	if err != nil {
		return err
	}
	fmt.Println(strings.TrimSpace(string(answer)))
	return nil
}
