"""Policies by their returns, and with a critic: sampled actions, smooth losses."""

from collections import deque, namedtuple
from itertools import count

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.distributions import Categorical

torch.manual_seed(543)
eps = torch.finfo(torch.float32).eps
SavedAction = namedtuple("SavedAction", ["log_prob", "value"])


class Pole:
    """A state of four numbers that actions push about."""

    def reset(self):
        self.state, self.steps = torch.zeros(4), 0
        return self.state.numpy()

    def step(self, action):
        push = torch.tensor([0.02, 0.1, 0.03, -0.15]) * (1 if action else -1)
        self.state = self.state + push * torch.tensor([1.0, 0.5, 1.1, 0.9])
        self.steps += 1
        done = bool(self.state.abs().max() > 0.5) or self.steps > 30
        return self.state.numpy(), 1.0, done


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1 = nn.Linear(4, 16)
        self.dropout = nn.Dropout(p=0.6)
        self.action_head = nn.Linear(16, 2)
        self.value_head = nn.Linear(16, 1)
        self.saved_actions, self.rewards = [], []

    def forward(self, x):
        x = F.relu(self.dropout(self.affine1(x)))
        return F.softmax(self.action_head(x), dim=-1), self.value_head(x)


model, env = Policy(), Pole()
optimizer = optim.Adam(model.parameters(), lr=3e-2)


def select_action(state):
    state = torch.from_numpy(state).float()
    probs, value = model(state)
    m = Categorical(probs)
    action = m.sample()
    model.saved_actions.append(SavedAction(m.log_prob(action), value))
    return action.item()


def finish_episode():
    R = 0
    returns = deque()
    for r in model.rewards[::-1]:
        R = r + 0.99 * R
        returns.appendleft(R)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + eps)
    policy_losses, value_losses = [], []
    for (log_prob, value), R in zip(model.saved_actions, returns):
        advantage = R - value.item()
        policy_losses.append(-log_prob * advantage)
        value_losses.append(F.smooth_l1_loss(value, torch.tensor([R])))
    optimizer.zero_grad()
    loss = torch.stack(policy_losses).sum() + torch.stack(value_losses).sum()
    loss.backward()
    optimizer.step()
    del model.rewards[:]
    del model.saved_actions[:]
    return loss.item()


for episode in count(1):
    state, ep_reward = env.reset(), 0
    for _ in range(1, 100):
        action = select_action(state)
        state, reward, done = env.step(action)
        model.rewards.append(reward)
        ep_reward += reward
        if done:
            break
    print(f"episode {episode}: reward {ep_reward:.0f} loss {finish_episode():.4f}")
    if episode == 6:
        break
