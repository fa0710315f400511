"""Objects: attributes, methods, properties, inheritance. Queues of a post office, ticked through."""


class Customer:
    served = 0

    def __init__(self, number, errands):
        self.number = number
        self.errands = errands
        self.waited = 0

    @property
    def done(self):
        return not self.errands

    def tick(self):
        self.waited += 1

    def serve(self):
        self.errands -= 1
        return self.done


class Hurried(Customer):
    def tick(self):
        super().tick()
        if self.waited > 6:
            self.errands = 1


class Desk:
    def __init__(self, name, skill):
        self.name, self.skill = name, skill
        self.line = []
        self.total = 0

    def __len__(self):
        return len(self.line)

    def take(self, customer):
        self.line.append(customer)

    def work(self, clock):
        for customer in self.line:
            customer.tick()
        if self.line and clock % self.skill == 0 and self.line[0].serve():
            self.close(self.line.pop(0))

    def close(self, customer):
        self.total += customer.waited
        Customer.served += 1


class Counter(Desk):
    def close(self, customer):
        super().close(customer)
        self.skill = 1 + customer.number % 3


def work():
    Customer.served = 0
    desks = [Desk("a", 3), Counter("b", 2), Counter("c", 3)]
    for clock in range(9000):
        if clock % 5 < 3:
            kind = Hurried if clock % 3 else Customer
            min(desks, key=len).take(kind(clock, 1 + clock % 4))
        for desk in desks:
            desk.work(clock)
        if clock % 10 == 0:
            for desk in desks:
                del desk.line[20:]
    return Customer.served, [desk.total for desk in desks]
